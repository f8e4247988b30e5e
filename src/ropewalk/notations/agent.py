"""The notation `agent`: a prompt, the tools that a model may call, and the schema of its answer.

The file has three parts.

1. **Messages.** `rendered` turns a conversation into the messages that are sent to a model. Results of tools become
   blocks of text, images and documents. The trace keeps every result complete; only the sent copy is cut, with a
   note.
2. **The loop.** `agent_loop` builds the nodes of a conversation: the model answers, its calls run concurrently, and so
   on. Agent documents and the `agent` nodes of experiences use it. The model's tool decides what follows from an
   answer, and this decision is journaled with the answer. A tool without a branch in the loop cannot be called.
3. **The document.** `compile_document` reads the fields. Prompts may contain references to `$input`; the referenced
   texts are data and are never read as references again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import orjson

from ..content import about_of, parts_in, to_mcp
from ..duration import EXAMPLES, read_duration
from ..errors import InvalidFlow, NodeFailed, Unfinished, failure_data
from ..expr import lift
from ..expr.ast import NULL, Arr, Expr, Fn, Lit, Obj, Ref
from ..fast_dataclass import dataclass
from ..ir import Flow, Graph, Meta, Node, OnError, Policy, Retry
from ..ops import MODEL as MODEL
from ..ops import Branch, Call, Compute, Loop, Map, Require, Undo, Wait, calls_of
from ..problems import Warnings
from ..tools.reserved import OWN, SEARCH
from ..values import Json, did_you_mean
from . import fields as f
from .binding import warn_of_references
from .budget import check_budget
from .fields import Checker, Report, add_problem, join, read_document
from .project import Hooks
from .registry import Compiled, all_problems
from .undo import check_undo_policy, check_undos, compile_undos

RESULT_SIZE: Final = 100_000
"""The most characters of text that are sent of one result; `result_size` overrides it."""
IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
LARGEST_FILE: Final = 5_000_000
"""The most characters of base64 in an image or a document."""
NO_TEXT: Final = "(no output)"
EMPTY: Final = "(empty message)"
"""The text that is sent for a message without content, because the API rejects blank messages."""


def rendered(
    messages: Sequence[Mapping[str, Any]], trace: Sequence[Mapping[str, Any]], size: int = RESULT_SIZE
) -> tuple[str, list[dict[str, Any]]]:
    """Return the system prompt, and the messages as they are sent, with the results of tools filled in."""
    outcomes = {str(use.get("id")): use.get("outcome") for use in trace}
    system: list[str] = []
    sent_messages: list[dict[str, Any]] = []
    for message in messages:
        role, content = str(message.get("role")), message.get("content")
        if role == "system" and not sent_messages:
            system.append(_text(content))
        elif isinstance(content, list):
            blocks = [_fill_result(block, outcomes, size) for block in content]
            if blocks:
                sent_messages.append({"role": role, "content": blocks})
        else:
            sent_messages.append({"role": role, "content": _text(content)})
    return "\n\n".join(system), sent_messages


def _fill_result(block: Any, outcomes: Mapping[str, Any], size: int) -> Any:
    if not isinstance(block, Mapping) or block.get("type") != "tool_result" or "content" in block:
        return block
    id = str(block.get("tool_use_id"))
    return {"type": "tool_result", "tool_use_id": id, **result(_outcome_of(id, outcomes), size)}


def complete_trace(trace: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the calls of a trace; a repeated call, which was not made again, gets the outcome of the first."""
    outcomes = {str(use.get("id")): use.get("outcome") for use in trace}
    calls = []
    for use in trace:
        first_id = (use.get("outcome") or {}).get("same_as")
        repeated = (
            {} if first_id is None else {"outcome": {**_outcome_of(str(use.get("id")), outcomes), "same_as": first_id}}
        )
        calls.append({**use, **repeated})
    return calls


def _outcome_of(id: str, outcomes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the outcome of a call; that of the first one if the call was a repetition and not made again."""
    outcome = outcomes.get(id) or {}
    first_id = outcome.get("same_as")
    return outcomes.get(str(first_id)) or {} if first_id is not None else outcome


def result(outcome: Mapping[str, Any], size: int = RESULT_SIZE) -> dict[str, Any]:
    """Return the `content` of a tool result, and `is_error` if the call failed."""
    error = outcome.get("error")
    if error is not None:
        return {"content": _shorten(_text(error), size), "is_error": True}
    parts = outcome.get("content")
    if isinstance(parts, list):
        blocks = _limit_text([block_of_part(part) for part in parts if isinstance(part, (Mapping, str))], size)
        return {"content": blocks or NO_TEXT}
    value = outcome.get("value")
    if blocks := _content_blocks(value):
        return {"content": _limit_text(blocks, size)}
    return {"content": _shorten(_text(value), size) if value is not None else NO_TEXT}


def _content_blocks(value: Json) -> list[dict[str, Any]]:
    """Return the blocks of a value that contains parts of content; [] if it contains none."""

    # A list of texts and parts keeps its order. Any other value becomes its JSON, followed by each part once.
    inside = list(parts_in(value))
    if not inside:
        return []
    listed = value if isinstance(value, list) else [value]
    if all(isinstance(item, str) or about_of(item) is not None for item in listed):
        return [block_of_part(item) for item in listed]
    once = {orjson.dumps(about): about for about in inside}
    return [_text_block(_text(value)), *(block_of_part(to_mcp(about)) for about in once.values())]


def _text(value: Json) -> str:
    return value if isinstance(value, str) else "" if value is None else orjson.dumps(value).decode()


def _shorten(text: str, size: int) -> str:
    if len(text) <= size:
        return text
    return f"{text[:size]}\n[cut: the first {size:,} of {len(text):,} characters; the rest was not sent]"


def _limit_text(blocks: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    """Return the blocks with at most `size` characters of text together."""
    remaining = size
    kept_blocks = []
    for block in blocks:
        if block["type"] == "text":
            if remaining <= 0:
                continue
            block = {"type": "text", "text": _shorten(block["text"], remaining)}
            remaining -= len(block["text"])
        kept_blocks.append(block)
    return kept_blocks


def block_of_part(part: Mapping[str, Any] | str) -> dict[str, Any]:
    """Return the block of one part of a result: a text, a part of content, or a content block of MCP."""
    if isinstance(part, str):
        return _text_block(part or NO_TEXT)
    about = about_of(part)
    if about is not None:
        part = to_mcp(about)
    kind, mime = part.get("type"), str(part.get("mimeType") or "")
    if kind == "text":
        return _text_block(_text(part.get("text")) or NO_TEXT)
    if kind == "image":
        return _file_block("image", mime, part.get("data"))
    if kind == "audio":
        return _text_block(f"[audio {mime}, {_describe_size(part.get('data'))}: it cannot be played here]")
    if kind == "resource_link":
        words = [str(part[key]) for key in ("title", "name", "description") if part.get(key)]
        return _text_block(f"[link {part.get('uri')}{': ' if words else ''}{', '.join(words)}]")
    if kind == "resource" and isinstance(part.get("resource"), Mapping):
        return _resource_block(part["resource"])
    return _text_block(_text(dict(part)))


def _resource_block(resource: Mapping[str, Any]) -> dict[str, Any]:
    mime, uri = str(resource.get("mimeType") or ""), str(resource.get("uri") or "")
    text = resource.get("text")
    if isinstance(text, str):
        return _text_block(f"[{uri}]\n{text}" if uri else text or NO_TEXT)
    if mime in IMAGES:
        return _file_block("image", mime, resource.get("blob"))
    if mime == "application/pdf":
        return _file_block("document", mime, resource.get("blob"))
    return _text_block(f"[{uri} {mime}, {_describe_size(resource.get('blob'))}: it cannot be shown here]")


def _file_block(kind: str, mime: str, data: Any) -> dict[str, Any]:
    if not isinstance(data, str) or not data or (kind == "image" and mime not in IMAGES) or len(data) > LARGEST_FILE:
        return _text_block(f"[{kind} {mime}, {_describe_size(data)}: it cannot be shown here]")
    return {"type": kind, "source": {"type": "base64", "media_type": mime, "data": data}}


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _describe_size(data: Any) -> str:
    return f"{len(data) * 3 // 4:,} bytes" if isinstance(data, str) else "empty"


APPROVAL: Final = "ropewalk:approval"
"""The tool that asks the caller to approve a call."""
MAX_ROUNDS: Final = 20
MAX_REFUSALS: Final = 20
"""The most requests of one conversation that the model's API may refuse."""
ENDS: Final = ("end_turn", "stop_sequence")
"""The stop reasons of a complete answer."""
RAN: Final = (
    ". The tool did run, and whatever it does has been done; only its result was rejected. "
    "Do not call it again with these arguments unless repeating its effects is intended."
)
"""The note to the model about a call that took effect although its result cannot be used."""
_RETRY: Final = Policy(retry=Retry(attempts=3, delay=0.5, factor=2.0))
_HIDDEN: Final = Meta(hidden=True)


def agent_loop(
    options: Mapping[str, Json],
    tools: Sequence[str],
    start: Expr,
    *,
    approve: Collection[str] = (),
    undos: Mapping[str, Undo] = MappingProxyType({}),
    ask_caller: bool = False,
    path: str = "",
    within: str = "",
    name: str = "",
) -> Loop:
    """Build the loop over the turns of a conversation."""

    # `approve`: The tools whose calls must be approved first.
    turn, talk, calls_id = f"{within}turn", f"{within}talk", f"{within}calls"
    request: dict[str, Expr] = {
        "options": Lit(dict(options)),
        "tools": Lit(list(tools)),
        **{key: Ref("out", (talk, key)) for key in ("messages", "trace", "totals")},
    }
    # Calls that need an approval are never answered from the cache.
    also = _object({"approve": Lit(sorted(approve))}) if approve else None
    # Each turn has three nodes: the state of the conversation, the model's answer, the calls it wants.
    call_all = Map(
        items=Ref("out", (turn, "uses")), body=_CallBranches(within, path, approve, ask_caller, undos).region(tools)
    )
    nodes = (
        Node(id=talk, op=Compute(value=Ref("prev")), meta=_HIDDEN),
        Node(id=turn, op=Call(tool=MODEL, args=_object(request), also=also), policy=_RETRY, meta=Meta(name=name)),
        Node(id=calls_id, op=call_all),
    )
    # The next turn gets the conversation with the answer and the results of the calls appended.
    answer = {key: Ref("out", (turn, key)) for key in ("text", "data", "answer", "content", "stop_reason", "totals")}
    result = {
        **answer,
        "messages": _concat(Ref("out", (talk, "messages")), Ref("out", (turn, "said"))),
        "trace": _concat(Ref("out", (talk, "trace")), Ref("out", (calls_id,))),
    }
    first_state = {"messages": start, "trace": Lit([]), "totals": NULL}
    return Loop(
        body=Graph(nodes=nodes, result=_object(result), ordered=True),
        # A request that the API refused is a turn without a round; the model's tool counts the rounds.
        limit=int(str(options.get("max_rounds") or MAX_ROUNDS)) + MAX_REFUSALS,
        until=Fn("!=", (Ref("out", (turn, "stop_reason")), NULL)),
        collect=False,
        initial=_object(first_state),
    )


@dataclass(frozen=True, slots=True)
class AgentParts:
    """The arguments that a loop was built from."""

    options: dict[str, Json]
    tools: list[str]
    start: Expr
    undos: dict[str, Undo]


def agent_of(op: Loop, within: str) -> AgentParts | None:
    """Return the arguments of the `agent_loop` that built a loop; None for other loops and those with approvals."""
    request = next(
        (node.op.args for node in op.body.nodes if isinstance(node.op, Call) and node.op.tool == MODEL), None
    )
    fields = dict(request.fields) if isinstance(request, Obj) else {}
    options, tools = fields.get("options"), fields.get("tools")
    if not isinstance(options, Lit) or not isinstance(tools, Lit) or not isinstance(op.initial, Obj):
        return None
    start = dict(op.initial.fields).get("messages", NULL)
    undos = {call.op.tool: call.op.undo for call in calls_of(op.body) if call.op.undo is not None}
    # A loop with the shape of an agent may still differ from one: a node was added, or a limit was changed. No list of
    # checks would stay complete, so build the loop of these arguments and compare: only an equal one is an agent.
    is_same = agent_loop(options.value, tools.value, start, undos=undos, within=within) == op
    return AgentParts(options.value, tools.value, start, undos) if is_same else None


@dataclass(frozen=True, slots=True)
class _CallBranches:
    """Build the calls of a turn: one branch for each tool."""

    # `within` is the prefix of their ids.

    within: str
    path: str
    approve: Collection[str]
    caller: bool
    undos: Mapping[str, Undo]

    def region(self, tools: Sequence[str]) -> Graph:
        """Build the region that handles one call: the branch of its tool, or the model tool's own answer."""
        names = [tool.replace(":", ".") for tool in tools]
        arms = tuple(
            (
                Fn("==", (Ref("item", ("run",)), Lit(tool))),
                self.arm(i, tool, name if names.count(name) == 1 else f"{name}.{i}", _arguments(tool, tools)),
            )
            for i, (tool, name) in enumerate(zip(tools, names, strict=True))
        )
        not_made = _object({key: Ref("item", (key,)) for key in ("error", "same_as")})
        instead = Fn("coalesce", (Ref("item", ("cached",)), not_made))
        use = Node(id=f"{self.within}use", op=Branch(arms=arms, default=self.constant("instead", instead)))
        request = {key: Ref("item", (key,)) for key in ("id", "round", "tool", "name", "input")}
        return Graph(nodes=(use,), result=_object({**request, "outcome": Ref("out", (use.id,))}), ordered=True)

    def arm(self, i: int, tool: str, name: str, args: Expr) -> Graph:
        """Build the branch of a tool: the call, whose failure is an answer too, after an approval if needed."""
        message = Ref("error", ("message",))
        explained = Fn("?:", (Fn("==", (Ref("error", ("ran",)), Lit(True))), Fn("${}", (message, Lit(RAN))), message))
        failed = Policy(on_error=OnError(value=_object({"error": explained})))
        meta = Meta(source=f"{self.path}[{i}]", labels={"tool": ""}, name=tool)
        op = Call(tool=tool, args=args, content=True, undo=self.undos.get(tool))
        call = Node(id=f"{self.within}call.{name}", op=op, policy=failed, meta=meta)
        call_region = Graph(nodes=(call,), result=Ref("out", (call.id,)), ordered=True)
        if tool not in self.approve:
            return call_region
        # With approval: ask, then call or answer with the reason for the refusal.
        question = self.question(f"{self.within}approval.{name}", tool, args)

        def answer(key: str) -> Ref:
            return Ref("out", (question.id, key))

        details = [Fn("?:", (Fn("!=", (answer(key), NULL)), Fn("${}", (Lit(text), answer(key))), Lit("")))
                 for key, text in (("by", " by "), ("note", ": "))]  # fmt: skip
        reason = Fn("coalesce", (answer("reason"), Fn("${}", (Lit(f"{tool} was not called: not approved"), *details))))
        refused = self.constant(f"refused.{name}", _object({"error": reason}))
        is_approved = Fn("==", (answer("approved"), Lit(True)))
        decision = Node(
            id=f"{self.within}approved.{name}", op=Branch(arms=((is_approved, call_region),), default=refused)
        )
        return Graph(nodes=(question, decision), result=Ref("out", (decision.id,)), ordered=True)

    def question(self, id: str, tool: str, args: Expr) -> Node:
        """Build the node that asks for approval of a call; it gives `approved` and the reasons."""
        if self.caller:
            return Node(id=id, op=Call(tool=APPROVAL, args=_object({"tool": Lit(tool), "input": args})))
        return Node(id=id, op=Wait(approval=Fn("${}", (Lit(f"Call {tool} with "), args, Lit("?")))))

    def constant(self, name: str, value: Expr) -> Graph:
        """Build a region that gives one value."""
        node = Node(id=f"{self.within}{name}", op=Compute(value=value), meta=_HIDDEN)
        return Graph(nodes=(node,), result=Ref("out", (node.id,)), ordered=True)


def _arguments(tool: str, tools: Sequence[str]) -> Expr:
    """Return the arguments of a call: those of the model, and for a search of tools those that it searches."""
    if tool != FIND_MORE:
        return Ref("item", ("input",))
    among: list[Json] = [id for id in tools if not id.startswith(f"{OWN}:")]
    return _object({"queries": Ref("item", ("input", "queries")), "among": Lit(among)})


def _object(fields: Mapping[str, Expr]) -> Obj:
    return Obj(tuple(fields.items()))


def _concat(*lists: Expr) -> Expr:
    return Fn("flatten", (Arr(lists),))


ROOTS: Final = frozenset(("input", "secret"))


def check_positive_number(value: Json, path: str, report: Report) -> Json:
    if f.number(value, path, report) == 0 and value == 0:
        add_problem(report, path, "must be above 0")
    return value


_CHOICES: Final = ("auto", "any", "none", "tool")


def check_choice(value: Json, path: str, report: Report) -> Json:
    """Accept `{type: auto | any | none}`, or `{type: tool, name}`."""
    if not isinstance(value, dict):
        return f.mapping(value, path, report)
    choice = f.normalize_keys(value, dict.fromkeys(("type", "name", "disable_parallel_tool_use")), path, report)
    f.one_of(_CHOICES)(choice.get("type"), join(path, "type"), report)
    if choice.get("type") == "tool" and not isinstance(choice.get("name"), str):
        add_problem(report, join(path, "name"), "required: the name of the tool to call")
    return choice


def check_flag_or_names(value: Json, path: str, report: Report) -> Json:
    return value if isinstance(value, bool) else f.names(value, path, report)


def check_cache(value: Json, path: str, report: Report) -> Json:
    """Accept true, false or `{ttl: 5m}`; return the time to live in seconds."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, Mapping):
        add_problem(report, path, "must be true, false or an object such as {ttl: 5m}")
        return True
    cache = f.normalize_keys(value, {"ttl": None}, path, report)
    seconds = read_duration(cache.get("ttl"))
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds <= 0:
        add_problem(report, join(path, "ttl"), f"must be a number of seconds above 0, or {EXAMPLES}")
    return {"ttl": seconds}


def check_content(value: Json, path: str, report: Report) -> Json:
    """Accept a prompt: a string, or a list of content blocks."""
    if not isinstance(value, (str, list)):
        add_problem(report, path, f"must be a string or a list of content blocks, not {f.type_name(value)}")
    return value


def check_messages(value: Json, path: str, report: Report) -> Json:
    if not isinstance(value, list) and not (isinstance(value, str) and value.startswith("$")):
        add_problem(report, path, f"must be a list of messages or a reference to one, not {f.type_name(value)}")
    return value


OPTIONS: Final[dict[str, Checker]] = {
    "model": f.name,
    "max_rounds": f.positive,
    "max_calls": f.positive,
    "max_tokens": f.positive,
    "token_budget": f.positive,
    "cost_budget": check_positive_number,
    "max_corrections": f.count,
    "result_size": f.positive,
    "cache": check_cache,
    "stream": f.truth,
    "prompt_cache": f.truth,
    "thinking": f.mapping,
    "effort": f.one_of(("low", "medium", "high", "xhigh", "max")),
    "tool_choice": check_choice,
    "stop_sequences": f.names,
    "extra": f.mapping,
    "output_schema": f.anything,
}
"""The fields that are passed to the model's tool at every turn."""
PLAN_OPERATIONS: Final = tuple(
    f"ropewalk:{name}" for name in ("find_tools", "check_plan", "run_plan", "resume_run", "save_plan")
)
"""The tools that an agent with `plans: true` has."""
FIND_MORE: Final = f"{OWN}:{SEARCH}"
"""The tool by which the model of an agent with `offered` finds the other tools of the agent."""
FIELDS: Final[dict[str, Checker]] = {
    "id": f.name,
    "kind": f.text,
    "name": f.name,
    "description": f.text,
    "mcpPrompt": f.truth,
    "prompt": check_content,
    "messages": check_messages,
    "system": f.text,
    "tools": f.names,
    "offered": f.names,
    "plans": f.truth,
    "approve": check_flag_or_names,
    "ask": f.one_of(("wait", "caller")),
    "undos": check_undos,
    "undo": check_undo_policy,
    "budget": check_budget,
    "inputSchema": f.mapping,
    "timeout": f.milliseconds,
    **OPTIONS,
}


def fits(document: Mapping[str, Json]) -> bool:
    """Return True if a document without `kind` has the shape of an agent."""
    return "prompt" in document and "nodes" not in document and "steps" not in document


def compile_document(config: Mapping[str, Json]) -> Compiled:
    """Read and compile an agent."""
    fields, report = read_document(config, FIELDS, "agent", ("inputSchema", "output_schema"))
    if ("prompt" in fields) == ("messages" in fields):
        add_problem(
            report, "prompt" if "prompt" not in fields else "messages", "an agent needs either a prompt or messages"
        )
    flow = _flow(fields, report)
    if report:
        raise InvalidFlow(all_problems(report, flow), flow)
    warnings: Report = Warnings()
    for key in ("system", "prompt", "messages"):
        warn_of_references(fields.get(key), key, ROOTS, warnings, "input")
    name = str(fields.get("name", "agent"))
    return Compiled(
        kind="agent",
        id=str(fields.get("id", name)),
        name=name,
        document=fields,
        flow=flow,
        warnings=tuple(warnings),
        render=Rendering(name, fields.get("result_size") or RESULT_SIZE),
        typed_at="output_schema",
        output_schema=fields.get("output_schema", {"type": "string"}),
    )


def _flow(fields: Mapping[str, Any], report: Report) -> Flow:
    operations, options = own_tools(fields), agent_options(fields)
    tools = tuple(dict.fromkeys((*fields.get("tools", ()), *operations)))
    if "offered" in fields:
        check_tools(fields["offered"], tools, "offered", report)
        options["offered"] = [*fields["offered"], *operations]
    loop = agent_loop(
        options,
        tools,
        start_messages(fields, "", report),
        approve=tools_to_approve(fields, tools, "", report) - set(operations),
        undos=compile_undos(fields.get("undos"), tools, "undos", report),
        ask_caller=fields.get("ask") == "caller",
        path="tools",
    )
    timeout = fields.get("timeout")
    node = Node(id="agent", op=loop, meta=Meta(source="", labels={"limit": "max_rounds", "initial": ""}))
    # The run succeeds only if the model ended on its own; a limit is a failure, with the conversation.
    end_tests = [Fn("==", (Ref("out", ("agent", "stop_reason")), Lit(reason))) for reason in ENDS]
    failure_message = Ref("out", ("agent", "totals", "why"))
    checked = Require(value=Ref("out", ("agent",)), holds=Fn("||", tuple(end_tests)), message=failure_message)
    last = Node(id="finished", op=checked, meta=Meta(hidden=True))
    return Flow(
        name=str(fields.get("name", "agent")),
        body=Graph(nodes=(node, last), result=Ref("out", ("agent",)), ordered=True),
        input_schema=fields.get("inputSchema"),
        timeout=timeout / 1000 if timeout else None,
        undo=fields.get("undo"),
        budget=fields.get("budget"),
    )


def agent_options(fields: Mapping[Any, Any]) -> dict[str, Json]:
    """Return the options that are passed to the model's tool at every turn."""
    return {"max_rounds": MAX_ROUNDS, **{key: fields[key] for key in OPTIONS if key in fields}}


def own_tools(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the tools that an agent has for other fields than `tools`."""
    operations = PLAN_OPERATIONS if document.get("plans") is True else ()
    return (*operations, *((FIND_MORE,) if "offered" in document else ()))


def tools_to_approve(fields: Mapping[str, Any], tools: tuple[str, ...], path: str, report: Report) -> frozenset[str]:
    """Return the tools whose calls must be approved first; report names that are not tools of the agent."""
    approve = fields.get("approve", False)
    if isinstance(approve, bool):
        return frozenset(tools) if approve else frozenset()
    check_tools(approve, tools, join(path, "approve"), report)
    return frozenset(approve)


def check_tools(names: Sequence[str], tools: tuple[str, ...], path: str, report: Report) -> None:
    """Report names that are not tools of the agent."""
    for i, name in enumerate(names):
        if name not in tools:
            add_problem(report, f"{path}[{i}]", f"{name!r} is not one of the tools", did_you_mean(name, tools))


def start_messages(fields: Mapping[str, Json], path: str, report: Report, roots: frozenset[str] = ROOTS) -> Expr:
    """Return the messages that a conversation begins with: the system prompt as a message, then the user's."""

    def read(key: str) -> Expr:
        return lift(fields.get(key), roots, path=join(path, key), problems=report)

    system = [_message("system", read("system"))] if fields.get("system") else []
    if "messages" not in fields:
        return Arr((*system, _message("user", read("prompt"))))
    return Fn("flatten", (Arr((Arr(tuple(system)), read("messages"))),))


def _message(role: str, content: Expr) -> Expr:
    return Obj((("role", Lit(role)), ("content", content)))


@dataclass(frozen=True, slots=True)
class Rendering:
    """Write an ending as the result of an agent."""

    name: str
    size: int

    def __call__(self, ending: Any) -> dict[str, Json]:
        talk = ending.value if ending.value is not None else ending.outputs.get("agent")  # which a limit has, too
        value = talk if type(talk) is dict else {}
        return {
            "success": ending.status == "completed",
            "executionId": ending.run_id,
            "agent": self.name,
            "status": ending.status,
            "result": value.get("answer"),
            "stopReason": value.get("stop_reason"),
            "warnings": list((value.get("totals") or {}).get("notes", ())),
            "conversation": self.conversation(value) if value else None,
            "error": _error(ending.error),
            "duration": round(ending.duration * 1000, 3),
        }

    def conversation(self, value: dict[str, Any]) -> dict[str, Json]:
        """Return the conversation with the messages as the model got them, so that they can be sent again."""
        system, messages = rendered(value["messages"], value["trace"], self.size)
        return {
            **value,
            **({"system": system} if system else {}),
            "messages": [message if message["content"] else {**message, "content": EMPTY} for message in messages],
            "trace": complete_trace(value["trace"]),
        }


def _error(error: Exception | None) -> Json:
    if isinstance(error, NodeFailed):
        # A limit ends the whole conversation, so no node has failed.
        node = None if error.kind == Unfinished.__name__ else error.node
        often = f" (asked {error.attempts} times)" if error.tool == MODEL and error.attempts > 1 else ""
        return {
            "nodeId": node,
            "tool": error.tool,
            "message": error.message + often,
            "kind": error.kind,
            **failure_data(error, node),
        }
    return None if error is None else {"nodeId": None, "message": str(error), "kind": type(error).__name__}


class AgentHooks(Hooks):
    """Names the tools that the loop of an agent calls."""

    def own_tools(self, document: Mapping[str, Any]) -> frozenset[str]:
        return frozenset((MODEL, APPROVAL, *own_tools(document)))


HOOKS: Final = AgentHooks()
