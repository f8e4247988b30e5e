"""Writing a flow: `with flow("report", topic=str) as f: ...`, then `f.done()`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar, overload

from ..check import ToolCard, check
from ..errors import InvalidFlow, InvalidTool, Problem
from ..expr.ast import Fn, Lit
from ..expr.ast import Ref as Plain
from ..expr.reshape import TRANSFORMS
from ..ir import Channel, Flow, Graph, Retry
from ..state import REDUCERS
from ..tools.signature import schema_of, schema_of_fields
from ..values import Json
from .built import Built
from .mistake import checked, mistake, place, spot
from .nodes import Nodes
from .ref import Ref
from .scope import Trace
from .step import NOT_GIVEN, Options, State, Writes
from .value import expression

R = TypeVar("R")
X = TypeVar("X")
Reducer = Literal["last_wins", "set_once", "array_append", "union", "object_merge", "sum", "max", "min"]


class FlowBuilder(Nodes):
    """A flow while it is written. What is called runs later, one after another as it stands here;
    what runs at once stands in a `with f.parallel():`."""

    def __init__(self, name: str, /, *given: Any, **inputs: Any) -> None:
        super().__init__(Trace())
        if not isinstance(name, str) or not name.strip():
            raise mistake(f"a flow has a name, such as flow('report', topic=str), not {name!r}")
        if len(given) > 1 or (given and inputs):
            raise mistake("the input is either one type, or one type per name: flow('report', topic=str)")
        self._name = name
        self._input = _schema(given[0], "input") if given else _inputs(inputs)
        self._result: Any = NOT_GIVEN
        self._timeout: float | None = None
        self._limit: int | None = None
        self._output: Json = None
        self._built: Built | None = None

    def __enter__(self) -> FlowBuilder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.done()

    # --- what can be read -----------------------------------------------------------------------

    @property
    def input(self) -> Ref[Any]:
        """The input of the run; its members are the names the flow was made with."""
        return Ref(self._trace.root.ref("input"))

    @property
    def secret(self) -> Ref[Any]:
        """Secrets by name, `f.secret.API_KEY`: read at the call, never written down."""
        return Ref(Plain("secret"))

    @overload
    def state(
        self, name: str, type: type[X], /, *, initial: X | None = None, reduce: Reducer = "last_wins"
    ) -> State[X]: ...
    @overload
    def state(
        self, name: str, type: object = None, /, *, initial: object = None, reduce: Reducer = "last_wins"
    ) -> State[Any]: ...
    def state(
        self, name: str, type: Any = None, /, *, initial: Any = NOT_GIVEN, reduce: str = "last_wins"
    ) -> State[Any]:
        """A piece of state: `type` what it holds, `initial` what it starts with, `reduce` how writes
        are folded in. Nodes write it with `f.options(into=...)` or `writes=`, or by `f.set(...)`."""
        if not isinstance(name, str):
            raise mistake(f"the name of a state is a string, not {type(name).__name__}")
        if name in self._trace.channels:
            raise mistake(f"there is a state {name!r} already")
        if reduce not in REDUCERS:
            raise mistake(f"there is no reducer {reduce!r}; there are {', '.join(REDUCERS)}", reduce, REDUCERS)
        first = expression(None if initial is NOT_GIVEN else initial, "initial")
        if not isinstance(first, Lit):
            raise mistake("a state starts with a value that is known before the run; set it by f.set(...)")
        schema = None if type is None else _schema(type, f"state {name!r}")
        self._trace.channels[name] = Channel(
            schema=schema, reduce=reduce, initial=first.value, present=initial is not NOT_GIVEN
        )
        return State(self._trace.root.ref("state", name), name)

    def status(self, node: Ref[Any], /) -> Ref[str]:
        """How a node ended: ok, failed, skipped, or dead where it was not reached."""
        expr = getattr(node, "_expr", None)
        root, path = getattr(expr, "root", ""), getattr(expr, "path", ())
        if not root.startswith("out#") or len(path) != 1:
            raise mistake(f"{node!r} is not the value of a node, which alone has a status")
        return Ref(Plain(root.replace("out", "status", 1), path))

    def apply(self, function: Callable[[Any], R], value: object, /) -> Ref[R]:
        """What a function registered by `@transform` gives for a value: a CUSTOM transform."""
        name = next((name for name, known in TRANSFORMS.items() if known is function), None)
        if name is None:
            said = getattr(function, "__name__", repr(function))
            raise mistake(f"{said} is not registered: put @transform above it, or make it a tool and call it")
        return Ref(Fn("custom", (Lit(name), expression(value))))

    # --- the flow as a whole --------------------------------------------------------------------

    @checked
    def options(
        self, *, name: str = "", description: str = "", when: object = NOT_GIVEN, gate: object = NOT_GIVEN,
        after: Sequence[Ref[Any]] = (), timeout: float | None = None, attempts: int = 1, delay: float = 0.0,
        factor: float = 1.0, linear: bool = False, max_delay: float = 3600.0, fallback: object = NOT_GIVEN,
        reported: bool = False, into: State[Any] | None = None, writes: Callable[[Ref[Any]], Writes] | None = None,
        gives: Callable[[Ref[Any]], object] | None = None,
    ) -> Nodes:  # fmt: skip
        """What holds for the next node: `f.options(attempts=3, fallback=None).call(fetch, url=url)`.

        `when` false: it is skipped. `timeout`: seconds per attempt. `attempts`: how often it is tried,
        `delay` seconds apart, times `factor` each time (or `linear`, at most `max_delay`). `fallback`:
        the value of a failure, or a function of the error; `reported`: the run is then partial.
        `gives`: its value, as a function of what the tool gave. `into`, `writes`: the state its value goes
        to. `after`: nodes of the same block to wait for.
        """
        number = next(self._trace.said)
        self._trace.waiting[number] = place()
        retry = Retry(attempts=attempts, delay=delay, factor=factor, linear=linear, max_delay=max_delay)
        return Nodes(
            self._trace,
            Options(
                name=name, description=description, when=when, gate=gate, after=after, timeout=timeout, retry=retry,
                fallback=fallback, reported=reported, into=into, writes=writes, gives=gives,
                number=number,
            ),
        )  # fmt: skip

    @checked
    def settings(
        self, *, timeout: float | None = None, parallel: bool = False, limit: int | None = None, returns: Any = None
    ) -> None:
        """Of the whole run: `timeout` in seconds; with `parallel` all nodes run at once, at most
        `limit`, but for what uses another's value; `returns` is the type of the result."""
        self._timeout, self._limit, self._trace.root.ordered = timeout, limit, not parallel
        if limit is not None and not parallel:
            raise mistake("limit says how many nodes run at once: only with parallel=True")
        self._output = None if returns is None else _schema(returns, "returns")

    def result(self, value: object, /) -> None:
        """What the run gives; without it the values of all nodes by name."""
        if self._result is not NOT_GIVEN:
            raise mistake("the flow has a result already")
        if self._trace.here is not self._trace.root:
            raise mistake("the result is given at the end of the flow, not inside of a block or a function")
        self._result = self._trace.lower(value, "result")

    def done(self) -> Built:
        """The finished flow; InvalidFlow with every problem, each at its line, where it is wrong."""
        if self._built is not None:
            return self._built
        root, trace = self._trace.root, self._trace
        if not root.nodes and self._result is NOT_GIVEN:
            raise mistake(f"the flow {self._name!r} has no nodes and no result")
        trace.closed = True
        result = root.outputs() if self._result is NOT_GIVEN else self._result
        body = Graph(nodes=tuple(root.nodes), result=result, ordered=root.ordered, limit=self._limit)
        flow = Flow(
            name=self._name, body=body, state=dict(trace.channels), input_schema=self._input,
            output_schema=self._output, timeout=self._timeout,
        )  # fmt: skip
        tools = trace.tools
        found = check(
            flow, lambda id: ToolCard(tools[id].input_schema, tools[id].output_schema) if id in tools else None
        )
        idle = [
            Problem(path=spot(at), message="these options are of no node; write it behind: .call(...)", place=at)
            for at in trace.waiting.values()
        ]
        if found.problems or idle:
            raise InvalidFlow([*map(self._placed, found.problems), *idle])
        self._built = Built(flow, tuple(tools.values()))
        return self._built

    def _placed(self, problem: Problem) -> Problem:
        where = next((p for s, p in self._trace.places.items() if problem.path.startswith(f"{s}: ")), None)
        if where is None:
            return problem
        return Problem(
            path=problem.path, message=problem.message, suggestion=problem.suggestion, place=where,
            keyword=problem.keyword,
        )  # fmt: skip


def _schema(hint: Any, place: str) -> dict[str, Json]:
    if isinstance(hint, dict):
        return hint
    try:
        return schema_of(hint, place)
    except InvalidTool as wrong:
        raise mistake(str(wrong)) from wrong


def _inputs(inputs: dict[str, Any]) -> Json:
    try:
        return schema_of_fields(inputs, "input") if inputs else None
    except InvalidTool as wrong:
        raise mistake(str(wrong)) from wrong


flow = FlowBuilder

__all__ = ["FlowBuilder", "flow"]
