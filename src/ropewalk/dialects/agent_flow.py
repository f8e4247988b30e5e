"""The loop of an agent as nodes: the model is asked, the calls it wants are made at once, and again.

`agent_loop` is what an agent document and the `agent` nodes of experiences are made of. What depends on the answer
(what may run, why it ends, what is said next) the model's tool decides, once, and that is journaled with the answer;
here it is only obeyed. A tool that no arm names cannot be called, whatever an answer says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ..expr.ast import NULL, Arr, Expr, Fn, Lit, Obj, Ref
from ..frozen import dataclass
from ..ir import Graph, Meta, Node, OnError, Policy, Retry
from ..ops import MODEL as MODEL
from ..ops import Branch, Call, Compute, Loop, Map, Wait
from ..values import Json

APPROVAL: Final = "ropewalk:approval"
"""The tool that asks whether a call may be made."""
MAX_ROUNDS: Final = 20
MOST_REFUSALS: Final = 20
"""Requests of one conversation that the model's API may refuse."""
ENDS: Final = ("end_turn", "stop_sequence")
"""Why a model ends that has said what it had to say."""
RAN: Final = (
    ". The tool did run, and whatever it does has been done; only its result was rejected. "
    "Do not call it again with these arguments unless repeating its effects is intended."
)
"""What a model is told of a call that took effect although its result cannot be used."""
_RETRY: Final = Policy(retry=Retry(attempts=3, delay=0.5, factor=2.0))
_HIDDEN: Final = Meta(hidden=True)


def agent_loop(
    options: Mapping[str, Json],
    tools: Sequence[str],
    start: Expr,
    *,
    approve: Collection[str] = (),
    ask_caller: bool = False,
    path: str = "",
    within: str = "",
    name: str = "",
) -> Loop:
    """The loop over turns. `options` go to the model's tool, `start` are the messages it begins with. `approve` names
    the tools that are asked about first: with `ask_caller` whoever runs the conversation, else the run waits for an
    approval. `path` is where the tools stand in the document, `within` what ids begin with, `name` what is said to have
    failed where the model does.

    Its value has `text`, `data`, `answer` (data where JSON was asked for, else the text), `content`, `stop_reason`,
    `messages`, `trace` and `totals`.
    """
    turn, talk, called = f"{within}turn", f"{within}talk", f"{within}calls"
    asked: dict[str, Expr] = {
        "options": Lit(dict(options)),
        "tools": Lit(list(tools)),
        **{key: Ref("out", (talk, key)) for key in ("messages", "trace", "totals")},
    }
    calls = Map(items=Ref("out", (turn, "uses")), body=_Arms(within, path, approve, ask_caller).region(tools))
    nodes = (
        Node(id=talk, op=Compute(value=Ref("prev")), meta=_HIDDEN),
        Node(id=turn, op=Call(tool=MODEL, args=_object(asked)), policy=_RETRY, meta=Meta(name=name)),
        Node(id=called, op=calls),
    )
    said = {key: Ref("out", (turn, key)) for key in ("text", "data", "answer", "content", "stop_reason", "totals")}
    result = {
        **said,
        "messages": _joined(Ref("out", (talk, "messages")), Ref("out", (turn, "said"))),
        "trace": _joined(Ref("out", (talk, "trace")), Ref("out", (called,))),
    }
    begin = {"messages": start, "trace": Lit([]), "totals": NULL}
    return Loop(
        body=Graph(nodes=nodes, result=_object(result), ordered=True),
        # A request that the API refused is a turn without a round; the model's tool counts the rounds.
        limit=int(str(options.get("max_rounds") or MAX_ROUNDS)) + MOST_REFUSALS,
        until=Fn("!=", (Ref("out", (turn, "stop_reason")), NULL)),
        collect=False,
        initial=_object(begin),
    )


@dataclass(frozen=True, slots=True)
class AgentParts:
    """What a loop was made of."""

    options: dict[str, Json]
    tools: list[str]
    start: Expr


def agent_of(op: Loop, within: str) -> AgentParts | None:
    """What `agent_loop` made a loop of, where that is what it is, and nobody is asked for approvals."""
    asked = next((node.op.args for node in op.body.nodes if isinstance(node.op, Call) and node.op.tool == MODEL), None)
    fields = dict(asked.fields) if isinstance(asked, Obj) else {}
    options, tools = fields.get("options"), fields.get("tools")
    if not isinstance(options, Lit) or not isinstance(tools, Lit) or not isinstance(op.initial, Obj):
        return None
    start = dict(op.initial.fields).get("messages", NULL)
    same = agent_loop(options.value, tools.value, start, within=within) == op
    return AgentParts(options.value, tools.value, start) if same else None


@dataclass(frozen=True, slots=True)
class _Arms:
    """The calls of a turn: an arm for each tool. Ids begin with `within`; they are those of one flow."""

    within: str
    path: str
    approve: Collection[str]
    caller: bool

    def region(self, tools: Sequence[str]) -> Graph:
        """One call the model wants: the arm of its tool, or what the model's tool says instead."""
        names = [tool.replace(":", ".") for tool in tools]
        arms = tuple(
            (
                Fn("==", (Ref("item", ("run",)), Lit(tool))),
                self.arm(i, tool, name if names.count(name) == 1 else f"{name}.{i}"),
            )
            for i, (tool, name) in enumerate(zip(tools, names, strict=True))
        )
        instead = _object({key: Ref("item", (key,)) for key in ("error", "same_as")})
        use = Node(id=f"{self.within}use", op=Branch(arms=arms, default=self.one("instead", instead)))
        about = {key: Ref("item", (key,)) for key in ("id", "round", "tool", "name", "input")}
        return Graph(nodes=(use,), result=_object({**about, "outcome": Ref("out", (use.id,))}), ordered=True)

    def arm(self, i: int, tool: str, name: str) -> Graph:
        """A call whose failure is an answer, too; one that is to be approved only when somebody has said yes."""
        message = Ref("error", ("message",))
        noted = Fn("?:", (Fn("==", (Ref("error", ("ran",)), Lit(True))), Fn("${}", (message, Lit(RAN))), message))
        failed = Policy(on_error=OnError(value=_object({"error": noted})))
        meta = Meta(source=f"{self.path}[{i}]", labels={"tool": ""}, name=tool)
        args = Ref("item", ("input",))
        call = Node(
            id=f"{self.within}call.{name}", op=Call(tool=tool, args=args, content=True), policy=failed, meta=meta
        )
        made = Graph(nodes=(call,), result=Ref("out", (call.id,)), ordered=True)
        if tool not in self.approve:
            return made
        question = self.question(f"{self.within}approval.{name}", tool, args)

        def said(key: str) -> Ref:
            return Ref("out", (question.id, key))

        given = [Fn("?:", (Fn("!=", (said(key), NULL)), Fn("${}", (Lit(text), said(key))), Lit("")))
                 for key, text in (("by", " by "), ("note", ": "))]  # fmt: skip
        why = Fn("coalesce", (said("reason"), Fn("${}", (Lit(f"{tool} was not called: not approved"), *given))))
        refused = self.one(f"refused.{name}", _object({"error": why}))
        yes = Fn("==", (said("approved"), Lit(True)))
        allowed = Node(id=f"{self.within}approved.{name}", op=Branch(arms=((yes, made),), default=refused))
        return Graph(nodes=(question, allowed), result=Ref("out", (allowed.id,)), ordered=True)

    def question(self, id: str, tool: str, args: Expr) -> Node:
        """Asks whether a call may be made with these arguments: gives `approved`, and what is said of that."""
        if self.caller:
            return Node(id=id, op=Call(tool=APPROVAL, args=_object({"tool": Lit(tool), "input": args})))
        return Node(id=id, op=Wait(approval=Fn("${}", (Lit(f"Call {tool} with "), args, Lit("?")))))

    def one(self, name: str, value: Expr) -> Graph:
        """A region that gives a value."""
        node = Node(id=f"{self.within}{name}", op=Compute(value=value), meta=_HIDDEN)
        return Graph(nodes=(node,), result=Ref("out", (node.id,)), ordered=True)


def _object(fields: Mapping[str, Expr]) -> Obj:
    return Obj(tuple(fields.items()))


def _joined(*lists: Expr) -> Expr:
    return Fn("flatten", (Arr(lists),))
