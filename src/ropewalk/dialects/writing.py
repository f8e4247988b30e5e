"""What writers of notations share: problems, ids, references in the words of the document.

A notation's writer subclasses `FlowWriter` and says in `bind` what a reference of the graph is in its
documents. Everything that a notation cannot hold is told at once, each with the path of its node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar

from ..codec.shape import set_fields
from ..errors import ExpressionError, InvalidFlow, Problem
from ..errors.collected import Warnings
from ..expr.ast import NULL, Each, Expr, Fn, Lit, Obj, Ref, Var, rebind, select
from ..expr.unlift import text_of, unlift
from ..ir import Flow, Graph, Node, OnError, Policy, Retry, parts
from ..ops import Call, Map
from ..values import Json
from .fields import variable
from .reshaping import simplified, without_result_node

Fields = dict[str, Json]
Around = TypeVar("Around")
"""What surrounds a node, as far as the meaning of references depends on it."""

POLICY: Mapping[type[Any], tuple[str, ...]] = {
    Policy: ("retry", "timeout", "on_error"),
    Retry: ("attempts", "delay", "factor", "linear", "max_delay"),
    OnError: ("value", "reported"),
}


WORDS: Mapping[tuple[str, str], str] = {
    ("node", "result"): "a value made of what a tool gave (gives, outputMapping)",
    ("node", "writes"): "what a node writes into the state (writes, into)",
    ("node", "gate"): "a gate",
    ("call", "also"): "what a module is given beside its arguments",
    ("onerror", "writes"): "what a node that failed writes",
    ("onerror", "reported"): "a failure that is reported (continue)",
    ("loop", "again"): "a test before each round (while)",
    ("loop", "until"): "a test after each round (until)",
    ("loop", "initial"): "a value that is folded (fold, reduce)",
    ("map", "select"): "a tool that chooses elements (select, filter)",
}
"""What the fields of the graph are to people; others are called by their names."""

OF_A_DIRECTORY = ("impl", "dataset", "experience", "cli-agent")
"""Namespaces of tools that are files of an experience."""
_OF_A_DIRECTORY = "calls {!r}, which only an experience in its directory has"


NO_TIMEOUT = "no limit of time"


class FlowWriter(Generic[Around]):
    """Writes one flow; `problems` grow as it goes."""

    kind: ClassVar[str]
    """The notation, for messages: "chain"."""
    held: ClassVar[Mapping[type[Any], tuple[str, ...]]]
    """The fields of nodes, ops and policies that the writer looks at; any other that is set is refused."""
    has_seeds: ClassVar[bool] = False
    """Whether fields of the state can begin with members of the input."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.problems: list[Problem] = Warnings()  # of which those past the limit are dropped
        self.ids = set(ids(flow.body))
        self.stands_for: dict[str, str] = {}  # paths of nodes that only the document has, and whose node they are

    def document(self) -> Fields:
        raise NotImplementedError

    def bind(self, ref: Ref, path: str, around: Around) -> Expr:
        """What a reference of the graph is in the document."""
        raise NotImplementedError

    @classmethod
    def write(cls, flow: Flow, losses: list[Problem] | None = None) -> Fields:
        """Return the document.

        Args:
            flow: The flow to write.
            losses: A list to which everything is added that the notation cannot hold.

        Returns:
            A document that its reader accepts.

        Raises:
            InvalidFlow: With everything that the notation cannot hold, where `losses` is None.
        """
        writer = cls(without_result_node(replace(flow, body=simplified(flow.body))))
        document = writer.document()
        for name in () if cls.has_seeds else flow.seeds:
            what = f"begins with the input's member {name!r} if there is one; a {cls.kind} begins with the default"
            writer.refuse(f"state.{name}", what)
        problems = list(dict.fromkeys(writer.problems))
        if losses is not None:
            losses += problems
        elif problems:
            raise InvalidFlow(problems)
        return document

    # --- what is refused ------------------------------------------------------------------------

    def refuse(self, path: str, message: str) -> None:
        for made, own in self.stands_for.items():
            if path == made or path.startswith((f"{made}.", f"{made}/")):
                path = own + path[len(made) :]
        self.problems.append(Problem(path=path, message=message))

    def refuse_unheld(self, node: Node, path: str) -> None:
        """What the graph can say of a node, and the notation cannot."""
        if isinstance(node.op, Call) and node.op.tool.partition(":")[0] in OF_A_DIRECTORY:
            self.refuse(path, _OF_A_DIRECTORY.format(node.op.tool))
        for value in (node, node.op, node.policy, node.policy.retry, node.policy.on_error):
            known = self.held.get(type(value))
            for name in set_fields(value):
                if known is not None and name not in known:
                    of = type(value).__name__.lower()
                    label = node.meta.labels.get(name) if value is node.op else None
                    what = WORDS.get((of, name), f"{label or name!r} of a {of}")
                    self.refuse(path, f"{self.kind}s have no word for {what}")

    def refuse_hidden(self, node: Node, path: str) -> None:
        what = node.meta.labels.get("hidden", "a hidden node")
        self.refuse(path, f"{what} has no place in {'an' if self.kind[0] in 'aeiou' else 'a'} {self.kind}")

    def refuse_op(self, node: Node, path: str, instead: str = "") -> None:
        kind = type(node.op).__name__.lower()
        said = f"{self.kind}s have no {node.meta.labels.get(kind, kind)} nodes"
        self.refuse(path, f"{said}; {instead}" if instead else said)

    # --- values ---------------------------------------------------------------------------------

    def free(self, id: str) -> str:
        """An id for a node that only the document needs."""
        while id in self.ids:
            id += "_"
        self.ids.add(id)
        return id

    def named(self, expr: Expr, path: str, around: Around) -> Expr:
        """References as the document names them."""
        return rebind(expr, lambda ref: self.bind(ref, path, around))

    def value(self, expr: Expr, path: str, around: Around) -> Json:
        """A value as it stands in the document."""
        try:
            return unlift(self.named(expr, path, around))
        except ExpressionError as wrong:
            self.refuse(path, wrong.message)
            return None

    def condition(self, expr: Expr, path: str, around: Around) -> Json:
        """The text of a condition, or a boolean."""
        if isinstance(expr, Lit) and type(expr.value) is bool:
            return expr.value
        try:
            return text_of(self.named(expr, path, around))
        except ExpressionError as wrong:
            self.refuse(path, wrong.message)
            return False

    def transform(self, expr: Expr, path: str, around: Around) -> tuple[str, Fields, Expr] | None:
        """The type and config of the transform that a value is, and what it is applied to, in the words of
        the document; None when it is none."""
        from ..expr.untransform import untransform

        try:
            return untransform(self.named(expr, path, around))
        except ExpressionError:
            return None  # told where the value is written as one

    def output(self, ref: Ref, root: str = "output", name: str | int | None = None) -> Expr:
        """The output of a node where a leading `output` is skipped if the value has no such member."""
        head, *rest = (ref.path[0] if name is None else name, *ref.path[1:])
        if ref.elide or rest[:1] != ["output"]:
            return Ref(root, (head, *rest))
        found: Expr = Fn("coalesce", (Ref(root, (head,)),))
        for key in rest:
            found = select(found, key)
        return found

    def status(self, ref: Ref, path: str) -> Expr:
        self.refuse(path, f"{self.kind}s cannot read how {ref.path[0]!r} ended")
        return NULL

    def wait(self, node: Node, path: str, around: Around) -> Fields:
        """What a node waits for, and how many milliseconds."""
        op: Any = node.op
        if node.policy.timeout is not None:
            self.refuse(path, "a wait keeps its own time (timeout of the wait), not that of a call")
        word, text = ("event", op.event) if op.event is not None else ("approval", op.approval)
        fields: Fields = {word: self.value(text, path.replace("timeout", word), around)}
        if isinstance(op.timeout, Lit):
            return {**fields, "timeout": milliseconds(op.timeout.value)}
        if op.timeout is not None:
            self.refuse(path, f"how long a {self.kind} waits is a number, nothing that is worked out")
        return fields

    def output_var(self, node: Node, path: str) -> Fields:
        """The variable that keeps the node's output."""
        writes = node.writes
        if writes is None:
            return {}
        if isinstance(writes, Obj) and len(writes.fields) == 1 and writes.fields[0][1] == Ref("out", (node.id,)):
            wrong: list[Problem] = []
            variable(writes.fields[0][0], path, wrong)
            for problem in wrong:
                self.refuse(path, problem.message)
            return {} if wrong else {"outputVar": writes.fields[0][0]}
        self.refuse(
            path, f"a {self.kind}'s node sets one variable, to its own output; use a node that computes the other value"
        )
        return {}

    def variables(self) -> Fields:
        """State as variables: untyped, and the last write stands."""
        found: Fields = {}
        for name, channel in self.flow.state.items():
            path = f"state.{name}"
            if channel.reduce != "last_wins":
                self.refuse(path, f"a {self.kind}'s variables hold what was written last; {channel.reduce} is no way")
            if channel.schema is not None:
                self.refuse(path, f"a {self.kind}'s variables have no type; leave it out")
            if channel.present:
                found[name] = channel.initial
        return found


def only_in_a_directory(body: Graph, path: str = "") -> Iterator[Problem]:
    """The calls of tools that are files beside an experience: a document of another notation stands nowhere."""
    for node in body.nodes:
        if isinstance(node.op, Call) and node.op.tool.partition(":")[0] in OF_A_DIRECTORY:
            yield Problem(path=f"{path}{node.id}", message=_OF_A_DIRECTORY.format(node.op.tool))
        for _, part in parts(node.op):
            if isinstance(part, Graph):
                yield from only_in_a_directory(part, f"{path}{node.id}/")


def ids(body: Graph) -> Iterator[str]:
    """The ids of all nodes, those inside too."""
    for node in body.nodes:
        yield node.id
        for _, part in parts(node.op):
            if isinstance(part, Graph):
                yield from ids(part)


def first_items(op: Map) -> Expr:
    """What a map goes over, for notations that have no word for `most`."""
    if op.most is None:
        return op.items
    return Each("filter", op.items, ("$item", "$index"), Fn("<", (Var("$index"), Lit(op.most))))


def milliseconds(seconds: float) -> int | float:
    """Seconds as the number of milliseconds that is read as the same seconds."""
    found = seconds * 1000
    whole = round(found)
    return whole if whole / 1000 == seconds else found
