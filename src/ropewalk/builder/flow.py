"""Write a flow in Python: `with flow("report", topic=str) as f: ...`, then `f.done()`.

`FlowBuilder` is the flow while it is written, `Built` the finished one, which an app runs, draws, stores and
converts to other notations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from ..check import ToolCard, check
from ..codec import flow_to_json
from ..duration import read_duration
from ..errors import InvalidFlow, InvalidTool, Problem
from ..expr.ast import Fn, Lit
from ..expr.ast import Ref as Plain
from ..expr.reshape import TRANSFORMS
from ..fast_dataclass import dataclass
from ..ir import Channel, Flow, Graph, Retry
from ..state import REDUCERS
from ..tools.signature import reader_of, schema_of, schema_of_fields
from ..tools.tool import Tool
from ..values import Json, digest
from .nodes import Nodes
from .refs import Ref
from .scope import Trace
from .step import NOT_GIVEN, Options, State, Writes
from .values import expression, mistake, named_arguments_only, place

if TYPE_CHECKING:
    from ..notations.registry import Compiled


@dataclass(frozen=True, eq=False, repr=False)
class Built:
    """A finished flow.

    Attributes:
        flow: The graph.
        tools: The functions that it calls; an app that runs the flow registers them.
        read_result: Converts the result from JSON to the type that `settings(returns=...)` declares.
    """

    flow: Flow
    tools: tuple[Tool, ...] = ()
    read_result: Callable[[Any], Any] | None = None

    @property
    def name(self) -> str:
        """Return the name of the flow."""
        return self.flow.name

    @cached_property
    def document(self) -> dict[str, Json]:
        """Return the flow as a document of kind `flow`, as a store keeps it and `ropewalk run` reads it."""
        document = flow_to_json(self.flow)
        for region in document["regions"]:
            for node in region["nodes"]:
                # Line numbers would change the document after every edit above the node.
                kept_meta = {
                    key: value for key, value in node.pop("meta", {}).items() if key not in ("source", "labels")
                }
                if kept_meta:
                    node["meta"] = kept_meta
        return {"kind": "flow", **document}

    @cached_property
    def compiled(self) -> Compiled:
        """Return the flow as the notation `flow` compiles its document."""
        from ..notations.flow import compiled_flow

        return compiled_flow(self.flow, self.document)

    @cached_property
    def fingerprint(self) -> str:
        """Return the digest of the document."""
        return digest(self.compiled.document)

    def done(self) -> Built:
        """Return the flow itself, so that a finished flow can be passed like one that is being written.

        Returns:
            The same flow.
        """
        return self

    def draw(self, format: str = "text") -> str:
        """Return a drawing of the flow as `text`, `mermaid` or `svg`.

        Args:
            format: `text`, `mermaid` or `svg`.

        Returns:
            The drawing.
        """
        from ..draw import draw

        return draw(self.flow, format)

    def export(self, kind: str, *, allow_loss: bool = False) -> dict[str, Json]:
        """Write the flow as a document of another notation.

        Args:
            kind: The notation.
            allow_loss: Convert what the notation can hold. The result has `losses`, a `Problem` for each part that it
                leaves out or does differently.

        Returns:
            The document. Without losses it makes the same calls and gives the same value.

        Raises:
            InvalidFlow: With everything that the notation cannot hold, unless `allow_loss` is set.
            NotFound: The notation does not exist.
        """
        from ..notations.registry import write
        from ..notations.writing import ConvertedDocument

        if not allow_loss:
            return write(self.flow, kind)
        losses: list[Problem] = []
        document = ConvertedDocument(write(self.flow, kind, losses))
        document.losses = tuple(losses)
        return document

    def _repr_svg_(self) -> str:
        """Return the drawing that notebooks show."""
        return self.draw("svg")

    def __repr__(self) -> str:
        return f"<flow {self.name!r}, {len(self.flow.body.nodes)} nodes>"


R = TypeVar("R")
X = TypeVar("X")
Reducer = Literal["last_wins", "set_once", "array_append", "union", "object_merge", "sum", "max", "min"]


class FlowBuilder(Nodes):
    """A flow while it is written.

    Its methods add nodes that run later, in the order in which they are written. Nodes in a `with f.parallel():` run
    concurrently.

    Args:
        name: The name of the flow.
        input_types: The type of the input, as an alternative to `inputs`.
        inputs: The type of each member of the input, by name.
    """

    def __init__(self, name: str, /, *input_types: Any, **inputs: Any) -> None:
        super().__init__(Trace())
        if not isinstance(name, str) or not name.strip():
            raise mistake(f"a flow has a name, such as flow('report', topic=str), not {name!r}")
        if len(input_types) > 1 or (input_types and inputs):
            raise mistake("the input is either one type, or one type per name: flow('report', topic=str)")
        self._name = name
        self._input = _schema(input_types[0], "input") if input_types else _inputs(inputs)
        self._result: Any = NOT_GIVEN
        self._timeout: float | None = None
        self._limit: int | None = None
        self._output: Json = None
        self._read_result: Callable[[Any], Any] | None = None
        self._finished: Built | None = None

    def __enter__(self) -> FlowBuilder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.done()

    # --- what can be read -----------------------------------------------------------------------

    @property
    def input(self) -> Ref[Any]:
        """Return a reference to the input of the run."""
        return Ref(self._trace.root.ref("input"))

    @property
    def secret(self) -> Ref[Any]:
        """Return a reference to the secrets: `f.secret.API_KEY` is read at the call and never recorded."""
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
        """Declare a piece of state. Nodes write it with `f.options(into=...)`, `f.options(writes=...)` or `f.set(...)`.

        Args:
            name: The name of the state.
            type: The type of its value; None for any type.
            initial: The value at the start of the run.
            reduce: The reducer that combines a write with the current value.

        Returns:
            A reference to the current value.
        """
        if not isinstance(name, str):
            raise mistake(f"the name of a state is a string, not {type(name).__name__}")
        if name in self._trace.channels:
            raise mistake(f"there is a state {name!r} already")
        if reduce not in REDUCERS:
            raise mistake(f"unknown reducer {reduce!r}; expected one of: {', '.join(REDUCERS)}", reduce, REDUCERS)
        first = expression(None if initial is NOT_GIVEN else initial, "initial")
        if not isinstance(first, Lit):
            raise mistake(
                "the initial value of a state must be known before the run; to set it to another value, use f.set(...)"
            )
        schema = None if type is None else _schema(type, f"state {name!r}")
        self._trace.channels[name] = Channel(
            schema=schema, reduce=reduce, initial=first.value, present=initial is not NOT_GIVEN
        )
        return State(self._trace.root.ref("state", name), name)

    def status(self, node: Ref[Any], /) -> Ref[str]:
        """Return a reference to the status of a node: ok, failed, skipped, or dead if it was not reached.

        Args:
            node: The value of a node.

        Returns:
            A reference to the text.

        Raises:
            InvalidFlow: The reference is not the value of a node.
        """
        expr = getattr(node, "_expr", None)
        root, path = getattr(expr, "root", ""), getattr(expr, "path", ())
        if not root.startswith("out#") or len(path) != 1:
            raise mistake(f"{node!r} is not the value of a node; only a node has a status")
        return Ref(Plain(root.replace("out", "status", 1), path))

    def apply(self, function: Callable[[Any], R], value: object, /) -> Ref[R]:
        """Apply a function registered by `@transform` to a value: a CUSTOM transform.

        Args:
            function: The function.
            value: A reference, or JSON with references in it.

        Returns:
            A reference to the result.

        Raises:
            InvalidFlow: The function is not registered.
        """
        name = next((name for name, known in TRANSFORMS.items() if known is function), None)
        if name is None:
            function_name = getattr(function, "__name__", repr(function))
            raise mistake(f"{function_name} is not registered: put @transform above it, or make it a tool and call it")
        return Ref(Fn("custom", (Lit(name), expression(value))))

    # --- the flow as a whole --------------------------------------------------------------------

    @named_arguments_only
    def options(
        self, *, name: str = "", description: str = "", when: object = NOT_GIVEN, gate: object = NOT_GIVEN,
        after: Sequence[Ref[Any]] = (), timeout: float | str | None = None, attempts: int = 1, delay: float | str = 0.0,
        factor: float = 1.0, linear: bool = False, max_delay: float | str = 3600.0, fallback: object = NOT_GIVEN,
        reported: bool = False, into: State[Any] | None = None, writes: Callable[[Ref[Any]], Writes] | None = None,
        gives: Callable[[Ref[Any]], object] | None = None,
    ) -> Nodes:  # fmt: skip
        """Set options of the next node: `f.options(attempts=3, fallback=None).call(fetch, url=url)`.

        Args:
            name: The id of the node.
            description: A text for drawings.
            when: A condition; the node is skipped if it is false.
            gate: A condition; the node is not reached if it is false.
            after: Nodes of the same parallel block to wait for.
            timeout: Seconds per attempt, or a duration such as "10s"; so for `delay` and `max_delay`.
            attempts: The number of attempts, including the first.
            delay: Seconds between two attempts.
            factor: Multiplies the delay after each attempt.
            linear: Adds `delay` after each attempt instead.
            max_delay: The longest delay in seconds.
            fallback: The value of a failed node, or a function of the error.
            reported: True to report the failure; the run is then partial.
            into: The state that gets the value.
            writes: A function of the value that returns the writes to several states.
            gives: A function of the tool's result that returns the value of the node.

        Returns:
            The methods that add a node.
        """
        # Remember the line until a node uses the options: options of no node are a mistake.
        number = next(self._trace.option_numbers)
        self._trace.waiting[number] = place()
        retry = Retry(
            attempts=attempts,
            delay=read_duration(delay),
            factor=factor,
            linear=linear,
            max_delay=read_duration(max_delay),
        )
        return Nodes(
            self._trace,
            Options(
                name=name,
                description=description,
                when=when,
                gate=gate,
                after=after,
                timeout=read_duration(timeout),
                retry=retry,
                fallback=fallback,
                reported=reported,
                into=into,
                writes=writes,
                gives=gives,
                number=number,
            ),
        )

    @named_arguments_only
    def settings(
        self,
        *,
        timeout: float | str | None = None,
        parallel: bool = False,
        limit: int | None = None,
        returns: Any = None,
    ) -> None:
        """Set options of the whole run.

        Args:
            timeout: Seconds for the run, or a duration such as "10s".
            parallel: True to run nodes concurrently, each as soon as the values that it uses are ready.
            limit: The most nodes that run at once; only with `parallel`.
            returns: The type of the result.

        Raises:
            InvalidFlow: A limit is given without `parallel`.
        """
        self._timeout, self._limit, self._trace.root.ordered = read_duration(timeout), limit, not parallel
        if limit is not None and not parallel:
            raise mistake("limit is the number of nodes that run at once, so it needs parallel=True")
        self._output = None if returns is None else _schema(returns, "returns")
        if returns is not None and not isinstance(returns, dict):
            self._read_result = reader_of(returns, "returns")

    def result(self, value: object, /) -> None:
        """Set the result of the run; without it, the result is the values of all nodes by name.

        Args:
            value: A reference, or JSON with references in it.

        Raises:
            InvalidFlow: The flow has a result already, or the call is inside a block.
        """
        if self._result is not NOT_GIVEN:
            raise mistake("the flow has a result already")
        if self._trace.current is not self._trace.root:
            raise mistake("set the result at the end of the flow, not inside of a block or a function")
        self._result = self._trace.lower(value, "result")

    def done(self) -> Built:
        """Finish the flow.

        Returns:
            The finished flow.

        Raises:
            InvalidFlow: The flow is wrong; the error has every problem with its line.
        """
        if self._finished is not None:
            return self._finished
        # Close the trace first, so that nothing can be added to a flow that is being checked.
        root, trace = self._trace.root, self._trace
        if not root.nodes and self._result is NOT_GIVEN:
            raise mistake(f"the flow {self._name!r} has no nodes and no result")
        trace.closed = True
        result = root.outputs() if self._result is NOT_GIVEN else self._result
        body = Graph(nodes=tuple(root.nodes), result=result, ordered=root.ordered, limit=self._limit)
        flow = Flow(
            name=self._name,
            body=body,
            state=dict(trace.channels),
            input_schema=self._input,
            output_schema=self._output,
            timeout=self._timeout,
        )
        # Check now: every problem then has the line of the file that wrote it.
        tools = trace.tools
        checked = check(
            flow, lambda id: ToolCard(tools[id].input_schema, tools[id].output_schema) if id in tools else None
        )
        unused_options = [
            Problem(
                path=at.spot,
                message="these options belong to no node; add a method that makes a node, such as .call(...)",
                place=at,
            )
            for at in trace.waiting.values()
        ]
        if checked.problems or unused_options:
            raise InvalidFlow([*map(self._with_place, checked.problems), *unused_options])
        self._finished = Built(flow, tuple(tools.values()), self._read_result)
        return self._finished

    def _with_place(self, problem: Problem) -> Problem:
        place = next((p for s, p in self._trace.places.items() if problem.path.startswith(f"{s}: ")), None)
        if place is None:
            return problem
        return Problem(
            path=problem.path,
            message=problem.message,
            suggestion=problem.suggestion,
            place=place,
            keyword=problem.keyword,
        )


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
