"""The fields that nodes have in every document notation, and the keys that documents of every notation have.

`NODE_FIELDS` is the table: a field, the checker of its values, the word that a notation has always had for it, and
other spellings. A notation reads a node with `checkers` and `spellings`, compiles what the node does, and hands the
result to `attach`, which adds the condition, the error policy, the timeout, the wait, the repetition and the writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

from ..expr.ast import NULL, Expr, Lit, Obj, Ref, rebind
from ..fast_dataclass import dataclass
from ..ir import NO_POLICY, Graph, Node, OnError, Policy, Retry
from ..ops import Block, Map, Wait
from ..values import KEY_SPELLINGS, Json, did_you_mean
from . import fields as f
from .budget import check_budget
from .fields import Checker, OneOf, Report, add_problem, check_wait_kind, join, read_object
from .undo import check_undo_policy

POLICIES: Final = ("stop", "fail_run", "skip", "continue", "fallback", "retry")
STRATEGY: Final = OneOf(("stop", "continue", "retry", "fallback", "skip"), {})
MAX_RETRIES: Final = 3
ATTEMPTS: Final = 3
"""The attempts of the policy `retry`; the key `maxRetries` counts those after the first."""
DELAY: Final = 100
RETRY_DELAY: Final = 1000
"""The milliseconds between attempts with `maxRetries`; they stay the same."""
BACKOFFS: Final = ("constant", "linear", "exponential")
"""How the pauses between attempts grow."""
ROUND: Final = ".round"
"""The end of the id of the node that a `for_each` repeats."""
_ON_ERROR: Final[dict[str, Checker]] = {
    "policy": f.one_of(POLICIES),
    "attempts": f.positive,
    "backoff": f.one_of(BACKOFFS),
    "delay": f.milliseconds,
    "base_ms": f.milliseconds,
    "value": f.anything,
}
_FOR_EACH: Final[dict[str, Checker]] = {"items": f.anything, "source": f.anything, "concurrency": f.positive}
_WAIT: Final[dict[str, Checker]] = {"event": f.name, "approval": f.name, "timeout": f.milliseconds}


def check_on_error(value: Json, path: str, report: Report) -> Json:
    """Accept a policy, as a word or as an object with its attempts and its value."""
    if isinstance(value, str):
        return _ON_ERROR["policy"](value, path, report)
    expected = f"one of {', '.join(POLICIES)}, or an object"
    read = read_object(value, _ON_ERROR, path, report, required=("policy",), nulls=("value",), expected=expected)
    policy = read.get("policy")
    if "value" in read and policy not in ("fallback", "continue", ""):
        add_problem(report, join(path, "value"), f"only the policy fallback has value; this policy is {policy}")
    if "delay" in read and "base_ms" in read:
        add_problem(report, join(path, "base_ms"), "is another name of delay; give one of them")
    return read


def check_jump(value: Json, path: str, report: Report) -> Json:
    """Accept the nodes to jump to after a failure, or a policy."""
    return check_on_error(value, path, report) if isinstance(value, Mapping) else f.names(value, path, report)


def check_for_each(value: Json, path: str, report: Report) -> Json:
    """Accept a list, a reference to one, or an object with `items`."""
    if isinstance(value, (str, list)):
        return value
    read = read_object(value, _FOR_EACH, path, report, expected="a list, a reference to one, or an object with items")
    if ("items" in read) == ("source" in read) and isinstance(value, Mapping):
        twice = "items" in read
        add_problem(
            report, join(path, "source" if twice else "items"), "is another name of items" if twice else "required"
        )
    return read


def check_wait(value: Json, path: str, report: Report) -> Json:
    """Accept the event or the approval that a node waits for first."""
    read = read_object(value, _WAIT, path, report, expected="an object with event or approval")
    if isinstance(value, Mapping):
        check_wait_kind(read, "", path, report)
    return read


def check_variable(value: Json, path: str, report: Report) -> Json:
    """Accept the name of one variable, alone or in a list."""
    if not isinstance(value, list):
        return f.variable(value, path, report)
    if len(value) != 1:
        add_problem(report, path, f"a node writes one variable, not {len(value)}")
        return None
    return f.variable(value[0], f"{path}[0]", report)


def check_strict(value: Json, path: str, report: Report) -> Json:
    """Accept only true, where unknown references are always problems."""
    if f.truth(value, path, report) is False and value is False:
        add_problem(report, path, "cannot be false here: an unknown reference is always a problem")
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeField:
    """A field of nodes: its checker, and by notation its own word; `others` are spellings that all notations know."""

    name: str
    about: str
    read: Checker
    own: Mapping[str, str] = field(default_factory=dict)
    checks: Mapping[str, Checker] = field(default_factory=dict)
    others: tuple[str, ...] = ()

    def word(self, notation: str) -> str:
        """Return the word of a notation for the field."""
        return self.own.get(notation, self.name)


def _words(chain: str, composition: str, composite: str) -> dict[str, str]:
    return {"chain": chain, "composition": composition, "composite": composite}


NODE_FIELDS: Final[dict[str, NodeField]] = {
    item.name: item
    for item in (
        NodeField(name="name", about="The name of the node, for people.", read=f.text),
        NodeField(name="description", about="The purpose of the node, for people.", read=f.text),
        NodeField(
            name="phase", about="The phase that the node belongs to, for the progress that people see.", read=f.name
        ),
        NodeField(
            name="when",
            about="The condition. If it is false, the node is skipped; a choice takes its other side.",
            read=f.condition,
            own=_words(*["condition"] * 3),
        ),
        NodeField(
            name="after",
            about="The id or the ids of the nodes that end first.",
            read=f.names,
            own=_words(*["dependsOn"] * 3),
            others=("dependsOn",),
        ),
        NodeField(
            name="writes",
            about="The variable, or the state field, that receives the output.",
            read=f.names,
            own=_words(*["outputVar"] * 3),
            checks=dict.fromkeys(("chain", "composition", "composite"), check_variable),
            others=("outputVar",),
        ),
        NodeField(
            name="on_error",
            about="The handling of a failure: a policy, or an object with policy, attempts and value.",
            read=check_on_error,
            own=_words(*["onError"] * 3),
            checks={"chain": check_jump},
        ),
        NodeField(
            name="errorStrategy",
            about="The policy after a failure: stop, continue, retry, fallback or skip.",
            read=STRATEGY,
        ),
        NodeField(name="maxRetries", about="Attempts after the first one.", read=f.count),
        NodeField(
            name="retryDelay",
            about="Milliseconds, or text such as 10s, before each further attempt.",
            read=f.milliseconds,
        ),
        NodeField(name="fallback", about="The value of the node after a failure, with references.", read=f.anything),
        NodeField(
            name="timeout",
            about="Milliseconds, or text such as 10s, per attempt; for a node that waits, the waiting time.",
            read=f.milliseconds,
            others=("timeout_ms",),
        ),
        NodeField(
            name="for_each",
            about="The list that the node runs for, once per item: a reference, or {items, concurrency}.",
            read=check_for_each,
        ),
        NodeField(
            name="wait",
            about="The event or the approval before the node: {event, timeout} or {approval, timeout}.",
            read=check_wait,
        ),
    )
}
"""The fields of every node. `args`, `undo`, `event`, `approval` and `concurrency` belong to the types that use them."""
OTHER_WORDS: Final[dict[str, dict[str, str]]] = {
    "chain": {"args": "params", "inputMapping": "params"},
    "composition": {"args": "inputMapping", "params": "inputMapping", "input": "inputMapping"},
    "composite": {"args": "inputMapping", "params": "inputMapping", "type": "kind"},
    "experience": {"params": "args", "inputMapping": "args", "condition": "when"},
}
"""By notation, words of others for the fields of some types."""

DOCUMENT_FIELDS: Final[dict[str, Checker]] = {
    "id": f.name,
    "name": f.text,
    "description": f.text,
    "version": f.text,
    "mcpPrompt": f.truth,
    "inputSchema": f.anything,
    "outputSchema": f.anything,
    "result": f.anything,
    "variables": f.mapping,
    "timeout": f.milliseconds,
    "concurrency": f.positive,
    "on_error": check_on_error,
    "errorStrategy": STRATEGY,
    "maxRetries": f.count,
    "retryDelay": f.milliseconds,
    "strict": f.truth,
    "undo": check_undo_policy,
    "budget": check_budget,
    "metadata": f.mapping,
    "kind": f.text,
}
"""The keys that documents of every notation have."""
VALUE_NULLS: Final = ("fallback",)
"""The fields of nodes in which null is a value."""


@lru_cache(maxsize=8)
def checkers(notation: str) -> Mapping[str, Checker]:
    """Return the fields of every node in the words of a notation, each with its checker."""
    return MappingProxyType(
        {item.word(notation): item.checks.get(notation, item.read) for item in NODE_FIELDS.values()}
    )


@lru_cache(maxsize=8)
def spellings(notation: str) -> Mapping[str, str]:
    """Return other spellings of fields, each with the word of the notation."""
    words = dict(OTHER_WORDS[notation])
    for item in NODE_FIELDS.values():
        words |= {other: item.word(notation) for other in (item.name, *item.others) if other != item.word(notation)}
    return MappingProxyType(words)


for _notation in OTHER_WORDS:
    for _other, _word in spellings(_notation).items():
        KEY_SPELLINGS.setdefault(_word, set()).add(_other)


# --- what the fields of one node say ----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """The handling of failures: a policy, the attempts before it, and the value of a failed node."""

    policy: str = "stop"
    retry: Retry = Retry()
    value: Json = None
    place: str = ""
    """Where the value is, relative to the node; "" without one."""


STOP: Final = Failing()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonFields:
    """The fields of a node that all notations share, whatever they call them."""

    path: str
    notation: str
    fields: Mapping[str, Json]
    failing: Failing

    def get(self, name: str) -> Json:
        """Return the value of a field by its name in the table."""
        return self.fields.get(NODE_FIELDS[name].word(self.notation))

    def at(self, name: str) -> str:
        """Return the place of a field in the document."""
        return join(self.path, NODE_FIELDS[name].word(self.notation))

    @property
    def is_repeated(self) -> bool:
        """Return True if the node runs once for each item."""
        return self.fields.get("for_each") is not None

    def inner_id(self, id: str) -> str:
        """Return the id of the node that does the work."""
        return f"{id}{ROUND}" if self.is_repeated else id


def read_common(
    fields: Mapping[str, Json], notation: str, path: str, document: Failing = STOP, defaults: Json = None
) -> CommonFields:
    """Return the common fields of a node; `document` is the handling of failures for all nodes."""
    own = NODE_FIELDS["on_error"].word(notation)
    failing = read_failing(fields, own, notation, document, defaults or {})
    return CommonFields(path=path, notation=notation, fields=fields, failing=failing)


def read_failing(
    fields: Mapping[str, Json], key: str, notation: str, outer: Failing, defaults: Mapping[str, Json]
) -> Failing:
    """Return the handling of failures that the fields of a node or a document declare."""

    # `maxRetries` counts the attempts after the first, and pauses of `retryDelay` stay the same. `attempts` counts all,
    # and pauses grow. In a chain, `maxRetries` belongs to the strategy `retry`.
    declared, strategy = fields.get(key), fields.get("errorStrategy")
    if isinstance(declared, list):  # the nodes that a chain jumps to
        declared = None
    if isinstance(declared, str):
        declared = {"policy": declared}
    details = declared or {}
    policy = str(details.get("policy") or strategy or outer.policy)
    policy = "stop" if policy == "fail_run" else policy
    value, place = outer.value, outer.place
    if "value" in details:
        value, place = details["value"], f"{key}.value"
    elif "fallback" in fields:
        value, place = fields["fallback"], "fallback"
    counts = (policy == "retry" and not details) or notation != "chain"
    if counts and ("maxRetries" in fields or "retryDelay" in fields or (policy == "retry" and strategy)):
        retries = int(fields.get("maxRetries", defaults.get("maxRetries", MAX_RETRIES if policy == "retry" else 0)))
        pause = fields.get("retryDelay", defaults.get("retryDelay", RETRY_DELAY))
        retry = Retry(attempts=1 + retries, delay=pause / 1000) if retries else Retry()
    elif "attempts" in details or (policy == "retry" and details):
        delay = details.get("delay", details.get("base_ms", DELAY))
        backoff = details.get("backoff")
        retry = Retry(
            attempts=int(details.get("attempts", ATTEMPTS)),
            delay=delay / 1000,
            factor=1.0 if backoff == "constant" else 2.0,
            linear=backoff == "linear",
        )
    else:
        retry = Retry() if details or strategy else outer.retry
    return Failing(policy=policy, retry=retry, value=value, place=place)


def check_fallback(fields: Mapping[str, Json], notation: str, path: str, report: Report) -> None:
    """Report a policy `fallback` without a value."""
    key = NODE_FIELDS["on_error"].word(notation)
    declared = fields.get(key)
    policy = declared.get("policy") if isinstance(declared, Mapping) else declared or fields.get("errorStrategy")
    if (
        policy == "fallback"
        and "fallback" not in fields
        and "value" not in (declared if isinstance(declared, Mapping) else ())
    ):
        add_problem(report, join(path, "fallback"), f"required if {key} is fallback")


# --- one step of every compiler ---------------------------------------------------------------


Sequential = TypeVar("Sequential", bound="Ordered")


class Binding(Protocol):
    """The compiler of a notation, as far as common fields need it."""

    def value(self, value: Json, path: str, within: Any, /) -> Expr:
        """Compile JSON with references in it."""
        ...

    def expression(self, text: Json, path: str, within: Any, /) -> Expr:
        """Compile the text of a condition."""
        ...


def compile_policy(
    common: CommonFields, binding: Binding, within: Any, failed: Expr = NULL, *, has_timeout: bool = True
) -> Policy:
    """Return the policy of a node; `failed` is the value of one that failed and has none of its own."""
    failing, timeout = common.failing, common.get("timeout") if has_timeout else None
    on_error = None
    if failing.policy in ("continue", "skip", "fallback"):
        value = failed
        used = failing.place and (failing.policy != "skip")
        if used and (failing.place != "fallback" or failing.policy == "fallback" or common.notation != "chain"):
            value = binding.value(failing.value, join(common.path, failing.place), within)
        # A chain without a fallback stops; elsewhere the reader has reported it.
        if failing.policy != "fallback" or failing.place:
            is_reported = failing.policy == "continue" or (failing.policy == "skip" and common.notation == "experience")
            on_error = OnError(value=value, reported=is_reported)
    if on_error is None and not timeout and failing.retry.attempts < 2:
        return NO_POLICY
    retry = failing.retry if failing.retry.attempts > 1 else Retry()
    return Policy(retry=retry, timeout=timeout / 1000 if timeout else None, on_error=on_error)


def compile_wait(fields: Mapping[str, Json], path: str, binding: Binding, within: Any) -> Wait:
    """Return the wait for an event or an approval; its name or text may contain references."""
    event, approval = (
        binding.value(fields[key], join(path, key), within) if key in fields else None for key in ("event", "approval")
    )
    timeout = fields.get("timeout")
    return Wait(event=event, approval=approval, timeout=Lit(timeout / 1000) if timeout else None)


def attach(
    node: Node, common: CommonFields, binding: Binding, within: Any, width: int | None, *, output: Expr | None = None
) -> Node:
    """Return a node with its condition, its wait and its repetition around the work that it does."""

    # The policy of a repeated node is that of each item. `output` is the value of one repetition, which then writes by
    # itself; without it, the whole node writes.
    when = common.get("when")
    each, wait = common.fields.get("for_each"), common.fields.get("wait")
    test = None if when is None else binding.expression(when, common.at("when"), within)
    if each is None and wait is None:
        return node if test is None else replace(node, when=test)
    id = node.id.removesuffix(ROUND) if each is not None else node.id
    if each is not None:
        inner = replace(node, id=common.inner_id(id), meta=replace(node.meta, name=node.meta.name or id))
        inner = replace(inner, result=own_output(node.result, id, inner.id))
        if output is None:
            inner = replace(inner, writes=None)
        place, items, limit = items_of(each, common.at("for_each"))
        body = Graph(nodes=(inner,), result=output or Ref("out", (inner.id,)), ordered=True)
        repeated = Map(items=binding.value(items, place, within), body=body, limit=limit or width)
        labels = {**node.meta.labels, "items": place.removeprefix(f"{common.path}."), "limit": "for_each.concurrency"}
        meta = replace(node.meta, labels=labels)
        node = Node(id=id, op=repeated, writes=None if output is not None else node.writes, meta=meta)
    if wait is not None:
        node = _after_wait(node, compile_wait(wait, join(common.path, "wait"), binding, within))
    return replace(node, when=test)


def _after_wait(node: Node, wait: Wait) -> Node:
    """Return a node that waits first; its timeout and its attempts are those of the work, not of the wait."""
    labels = {"event": "wait.event", "approval": "wait.approval", "timeout": "wait.timeout"}
    first = Node(id=f"{node.id}.wait", op=wait, meta=replace(node.meta, labels=labels, name=node.id))
    work_id = f"{node.id}.work"
    work = replace(
        node,
        id=work_id,
        after=frozenset((first.id,)),
        writes=None,
        result=own_output(node.result, node.id, work_id),
        policy=replace(node.policy, on_error=None),
        meta=replace(node.meta, name=node.id),
    )
    block = Block(body=Graph(nodes=(first, work), result=Ref("out", (work_id,))))
    return replace(node, op=block, result=None, policy=Policy(on_error=node.policy.on_error))


def detach(node: Node) -> tuple[Node, Wait | None]:
    """Return the work of a node that waits first, and the wait; any other node as it is."""
    body = node.op.body if isinstance(node.op, Block) else None
    if body is None or [inner.id for inner in body.nodes] != [f"{node.id}.wait", f"{node.id}.work"]:
        return node, None
    (first, work), outer = body.nodes, replace(node, after=frozenset(), gate=None, when=None)
    policy = replace(work.policy, on_error=node.policy.on_error)
    own = replace(work, id=node.id, after=outer.after, result=own_output(work.result, work.id, node.id), policy=policy)
    own = replace(own, writes=node.writes, meta=node.meta)
    if not isinstance(first.op, Wait) or _after_wait(own, first.op) != outer:
        return node, None
    return replace(own, after=node.after, gate=node.gate, when=node.when), first.op


class Ordered(Protocol):
    """A node as read, of a sequence."""

    @property
    def id(self) -> str:
        """Return its id."""

    @property
    def path(self) -> str:
        """Return its place."""

    @property
    def fields(self) -> Mapping[str, Json]:
        """Return its fields."""


def in_order(nodes: list[Sequential], report: Report) -> list[Sequential]:
    """Return the nodes of a sequence in the order of the document, each after those that it depends on."""
    if not any(node.fields.get("dependsOn") for node in nodes):
        return nodes
    by_id, ordered = {node.id: node for node in nodes}, dict[str, Sequential]()
    open_ids: set[str] = set()
    for first in nodes:
        pending = [] if first.id in ordered else [(first, iter(first.fields.get("dependsOn") or ()))]
        while pending:  # a long row of nodes that wait for the next one must not recurse
            node, before = pending[-1]
            open_ids.add(node.id)
            for id in before:
                if id not in by_id:
                    add_problem(report, join(node.path, "dependsOn"), f"unknown node {id!r}", did_you_mean(id, by_id))
                elif id in open_ids and id not in ordered:
                    message = f"these nodes wait for each other: {node.id}, {id}"
                    add_problem(report, join(node.path, "dependsOn"), message)
                elif id not in ordered:
                    pending.append((by_id[id], iter(by_id[id].fields.get("dependsOn") or ())))
                    break
            else:
                ordered[node.id] = node
                pending.pop()
    return list(ordered.values()) if len(ordered) == len(nodes) else nodes


def items_of(each: Json, path: str) -> tuple[str, Json, int | None]:
    """Return the place and the value of the items of a `for_each`, and its limit."""
    if not isinstance(each, dict):
        return path, each, None
    key = "source" if "source" in each else "items"
    return join(path, key), each.get(key), each.get("concurrency")


def own_output(expr: Expr | None, old: str, new: str) -> Expr | None:
    """Return an expression that reads the output of a node under its new id."""

    def bind(ref: Ref) -> Ref:
        return replace(ref, path=(new, *ref.path[1:])) if ref.root == "out" and ref.path[:1] == (old,) else ref

    return None if expr is None or old == new else rebind(expr, bind)


def write_of(name: Json, id: str) -> Expr | None:
    """Return the write of a node's output to a variable, None without one."""
    return Obj(((str(name), Ref("out", (id,), original=Ref("output", (id,)))),)) if name else None
