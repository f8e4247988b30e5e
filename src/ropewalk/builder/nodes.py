"""The methods that add nodes to a flow, one for each kind. A new op gets its method here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypeVar, overload

from ..duration import read_duration
from ..ir import Graph
from ..ops import Block, Branch, Call, Compute, Loop, Map, Sleep, Validate, Wait
from ..tools.signature import is_async, schema_of
from ..tools.tool import Tool, tool_from, tool_of
from .function import parameters
from .refs import Ref
from .scope import Binds, Trace, as_name
from .step import NO_OPTIONS, Options, State, add, begin, end
from .values import close_coroutine, mistake

P = ParamSpec("P")
R = TypeVar("R")
X = TypeVar("X")
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    Y = TypeVarWithDefault("Y", default=Any)
else:
    Y = TypeVar("Y")
Plain: TypeAlias = dict[str, Any] | list[Any] | tuple[Any, ...] | str | float | None
"""The plain values that a body may return instead of references."""


class Nodes:
    """Add nodes at the current place of the flow."""

    def __init__(self, trace: Trace, options: Options = NO_OPTIONS) -> None:
        self._trace, self._options = trace, options

    # --- one thing ------------------------------------------------------------------------------

    @overload
    def call(self, tool: Callable[P, AsyncIterator[R]], /, *args: P.args, **kwargs: P.kwargs) -> Ref[Any]: ...
    @overload
    def call(self, tool: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> Ref[R]: ...
    @overload
    def call(self, tool: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Ref[R]: ...
    @overload
    def call(self, tool: str | Tool, /, **kwargs: object) -> Ref[Any]: ...
    def call(self, tool: Any, /, *args: object, **kwargs: object) -> Ref[Any]:
        """Call a tool: a function, a Tool, or the id of one that only the toolbox knows.

        Type checkers compare the arguments with the parameters of a function; a reference fits every parameter.

        Args:
            tool: The tool.
            *args: Arguments of a function by position: references, or JSON with references in it.
            **kwargs: Arguments by name: references, or JSON with references in it.

        Returns:
            A reference to the tool's result.

        Raises:
            InvalidFlow: The arguments do not fit the tool's signature.
        """
        known = None if isinstance(tool, str) else self._register_tool(tool)
        if args:
            if known is None or isinstance(tool, Tool):
                raise mistake("only functions take arguments by position; write flow.call(tool, name=value)")
            kwargs = {**_named(known, args, kwargs), **kwargs}
        if known is not None:
            _check_arguments(known, kwargs)
        id = known.id if known is not None else str(tool)
        base = as_name(known.name if known is not None else id.split(":")[1 if id.count(":") else 0])
        return add(self._trace, base, self._options, lambda _: Call(tool=id, args=self._trace.lower(kwargs)))

    def _register_tool(self, callee: Any) -> Tool:
        if hasattr(callee, "__await__"):
            close_coroutine(callee)
            raise mistake("the tool has already been called; pass the function and its arguments separately")
        if isinstance(callee, Ref):
            raise mistake(f"references stand for values, not for tools: {callee!r}")
        tool = callee if isinstance(callee, Tool) else tool_from(callee)
        registered = self._trace.tools.setdefault(tool.id, tool)
        if registered is not tool and registered != tool:
            raise mistake(f"two different tools are called {tool.id!r}; give one of them another name")
        return tool

    def value(self, value: object, /) -> Ref[Any]:
        """Add a node that computes a value once.

        Args:
            value: A reference, or JSON with references in it.

        Returns:
            A reference to the value.
        """
        return add(self._trace, "value", self._options, lambda _: Compute(value=self._trace.lower(value)))

    def set(self, state: State[X], value: Ref[X] | X, /) -> Ref[X]:
        """Add a node that writes a state.

        Args:
            state: The state.
            value: The update, which the reducer of the state folds in.

        Returns:
            A reference to the update.

        Raises:
            InvalidFlow: `state` was not made by `flow.state`.
        """
        if not isinstance(state, State):
            raise mistake(f"only a state made by flow.state(...) can be written, not {state!r}")
        options = replace(self._options, into=state)
        return add(self._trace, f"set_{state._channel}", options, lambda _: Compute(value=self._trace.lower(value)))

    def sleep(self, seconds: float | str | Ref[float], /) -> Ref[None]:
        """Add a pause in seconds; a resumed run waits only for the rest.

        Args:
            seconds: Seconds, a duration such as "10s", or a reference to a number.

        Returns:
            A reference to null.
        """
        return add(
            self._trace, "sleep", self._options, lambda _: Sleep(seconds=self._trace.lower(read_duration(seconds)))
        )

    def wait(self, event: str | Ref[str], /, *, timeout: float | str | Ref[float] | None = None) -> Ref[Any]:
        """Add a wait for an event, for at most `timeout` seconds; its value is the event's payload.

        Args:
            event: Name of the event.
            timeout: Seconds, or a duration such as "10s"; None for no limit.

        Returns:
            A reference to the payload.
        """
        return self._wait(event, None, timeout)

    def approval(
        self, text: str | Ref[str], /, *, timeout: float | str | Ref[float] | None = None
    ) -> Ref[dict[str, Any]]:
        """Add a wait for an approval of a text; its value is `{approved, by, note}`. A rejection fails the node.

        Args:
            text: The question that people see.
            timeout: Seconds, or a duration such as "10s"; None for no limit.

        Returns:
            A reference to the answer.
        """
        return self._wait(None, text, timeout)

    def _wait(self, event: object, text: object, timeout: object) -> Ref[Any]:
        def make(_: str) -> Wait:
            lower = self._trace.lower
            seconds = read_duration(timeout) if timeout is not None else self._options.timeout
            return Wait(
                event=None if event is None else lower(event, "event"),
                approval=None if text is None else lower(text, "approval"),
                timeout=None if seconds is None else lower(seconds, "timeout"),
            )

        options = replace(self._options, timeout=None)  # the wait enforces its own timeout, also after restarts
        return add(self._trace, "wait" if text is None else "approval", options, make)

    # --- choices --------------------------------------------------------------------------------

    def when(self, test: object, then: object, otherwise: object = None) -> Ref[Any]:
        """Add a choice between two bodies: functions that add nodes and return a value, or plain values.

        Args:
            test: The condition.
            then: The body if it is true.
            otherwise: The body if it is false or null.

        Returns:
            A reference to the value of the body that ran.
        """
        return self.cases((test, then), otherwise=otherwise)

    def cases(self, *arms: tuple[object, object], otherwise: object = None) -> Ref[Any]:
        """Add a choice: the body of the first true condition runs, else `otherwise`.

        Args:
            *arms: Pairs of a condition and a body.
            otherwise: The body if no condition is true.

        Returns:
            A reference to the value of the body that ran.

        Raises:
            InvalidFlow: An arm is not a pair.
        """
        if not arms or not all(isinstance(arm, tuple) and len(arm) == 2 for arm in arms):
            raise mistake("cases takes pairs: a condition, and what to do if it is true")

        def make(id: str) -> Branch:
            tests = [self._trace.lower(test, "condition") for test, _ in arms]
            bodies = [self._body_region(id, then, 0) for _, then in arms]
            default = None if otherwise is None else self._body_region(id, otherwise, 0)
            return Branch(arms=tuple(zip(tests, bodies, strict=True)), default=default)

        return add(self._trace, "when", self._options, make)

    # --- repetition -----------------------------------------------------------------------------

    def for_each(
        self,
        items: Ref[list[X]] | Sequence[X],
        body: Callable[[Ref[X]], Ref[Y]] | Callable[[Ref[X], Ref[int]], Ref[Y]],
        *,
        concurrency: int | None = 1,
    ) -> Ref[list[Y]]:
        """Add a loop over elements; its value is the list of what `body` returns.

        Args:
            items: The elements.
            body: Adds nodes for one element. It takes the element, and optionally its position. It may return JSON
                with references in it; `flow.value(...)` around it makes a type checker content.
            concurrency: With 1, elements are processed in order, each seeing the state that the previous one left.
                With a larger number (None: no limit) they run concurrently and independently.

        Returns:
            A reference to the list, in the order of the elements.
        """
        _check_concurrency(concurrency)

        def make(id: str) -> Loop | Map:
            over = self._trace.lower(items, "items")
            names = [*self._check_body(body, 1, 2), "index"]
            one_by_one = concurrency == 1
            binds = Binds(item=names[0], index=names[1], round="round" if one_by_one else "")
            graph, _ = self._trace.region(id, body, ("item", "index")[: len(names) - 1], binds)
            return Loop(items=over, body=graph) if one_by_one else Map(items=over, body=graph, limit=concurrency)

        return add(self._trace, "for_each", self._options, make)

    def select(
        self, items: Ref[list[X]] | Sequence[X], test: Callable[[Ref[X]], object], *, concurrency: int | None = 1
    ) -> Ref[list[X]]:
        """Add a filter whose test calls tools; use `items.filter(...)` for a test that only computes.

        Args:
            items: The elements.
            test: Takes the element, and optionally its position; returns a condition.
            concurrency: Maximum number of elements at once; None for no limit.

        Returns:
            A reference to the elements whose test is true.
        """
        _check_concurrency(concurrency)

        def make(id: str) -> Map:
            over, names = self._trace.lower(items, "items"), [*self._check_body(test, 1, 2), "index"]
            binds = Binds(item=names[0], index=names[1])
            graph, _ = self._trace.region(id, test, ("item", "index")[: len(names) - 1], binds)
            return Map(items=over, body=graph, limit=concurrency, select=True)

        return add(self._trace, "select", self._options, make)

    def fold(
        self, items: Ref[list[X]] | Sequence[X], body: Callable[[Ref[Y], Ref[X]], Ref[Y] | Plain], start: Y | Ref[Y]
    ) -> Ref[Y]:
        """Fold elements to one value: `body` takes the value so far and an element.

        Use `items.reduce(...)` if `body` only computes.

        Args:
            items: The elements.
            body: Adds nodes for one element and returns the new value.
            start: The value before the first element.

        Returns:
            A reference to the last value.
        """

        def make(id: str) -> Loop:
            over, initial = self._trace.lower(items, "items"), self._trace.lower(start, "start")
            names = self._check_body(body, 2, 2)
            binds = Binds(prev=names[0], item=names[1], index="index", round="round")
            graph, _ = self._trace.region(id, body, ("prev", "item"), binds)
            return Loop(items=over, body=graph, collect=False, initial=initial)

        return add(self._trace, "fold", self._options, make)

    def check(self, value: Ref[X] | object, type: Any, /) -> Ref[Any]:
        """Add a check of a value, which fails the node with every mismatch.

        Args:
            value: A reference, or JSON with references in it.
            type: A type, or a JSON Schema.

        Returns:
            A reference to the value itself.
        """
        schema = type if isinstance(type, dict) else schema_of(type, "the type of a check")
        return add(
            self._trace, "check", self._options, lambda _: Validate(value=self._trace.lower(value), schema=schema)
        )

    @overload
    def loop(
        self, body: Callable[[], Ref[Y]] | Callable[[Ref[int]], Ref[Y]], *, limit: int,
        until: Callable[[Ref[Y]], object] | Ref[Any] | None = None,
        while_: Callable[[Ref[Y]], object] | Ref[Any] | None = None, collect: Literal[True] = True,
    ) -> Ref[list[Y]]: ...  # fmt: skip
    @overload
    def loop(
        self, body: Callable[[], Ref[Y]] | Callable[[Ref[int]], Ref[Y]], *, limit: int,
        until: Callable[[Ref[Y]], object] | Ref[Any] | None = None,
        while_: Callable[[Ref[Y]], object] | Ref[Any] | None = None, collect: Literal[False],
    ) -> Ref[Y]: ...  # fmt: skip
    def loop(
        self,
        body: Callable[..., object],
        *,
        limit: int,
        until: object = None,
        while_: object = None,
        collect: bool = True,
    ) -> Ref[Any]:
        """Add a loop that repeats a body at most `limit` times.

        Args:
            body: Adds the nodes of one iteration and returns its value. It can take the iteration's number, from 0.
            limit: Maximum number of iterations.
            until: Condition that ends the loop after an iteration, or a function of that iteration's value.
            while_: Condition that must hold before an iteration, or a function of the value of the one before.
            collect: Whether the value of the loop is the list of all values; otherwise it is the last one.

        Returns:
            A reference to the list or to the last value.

        Raises:
            InvalidFlow: The limit is not a positive integer, or the body takes other arguments.
        """
        if type(limit) is not int or limit < 1:
            raise mistake(
                f"limit must be a number of iterations of 1 or more, because a loop must end; it is {limit!r}"
            )
        tests = {name: test for name, test in (("until", until), ("again", while_)) if test is not None}

        def make(id: str) -> Loop:
            names = self._check_body(body, 0, 1)
            binds = Binds(round=names[0] if names else "round")
            graph, conditions = self._trace.region(id, body, ("round",)[: len(names)], binds, list(tests.values()))
            return Loop(body=graph, limit=limit, collect=collect, **dict(zip(tests, conditions, strict=True)))

        return add(self._trace, "loop", self._options, make)

    # --- blocks ---------------------------------------------------------------------------------

    @contextmanager
    def parallel(self, *, limit: int | None = None) -> Iterator[Ref[Any]]:
        """Open a block whose nodes run concurrently, at most `limit` at a time.

        A node that uses another's value waits for it. The nodes can be read after the block; its value is the object
        of their values.

        Args:
            limit: Maximum number of nodes at once; None for no limit.

        Yields:
            A reference to the object of all values in the block.
        """
        with self._block("parallel", False, limit) as block:
            yield block

    @contextmanager
    def block(self) -> Iterator[Ref[Any]]:
        """Open a block that is one node, so that one timeout, retry or fallback covers all nodes in it.

        Yields:
            A reference to the object of all values in the block.
        """
        with self._block("block", True, None) as block:
            yield block

    @contextmanager
    def _block(self, base: str, ordered: bool, limit: int | None) -> Iterator[Ref[Any]]:
        trace = self._trace
        opened = begin(trace, base, self._options)
        outer = trace.current
        with trace.inside(opened.id, ordered=ordered, has_outputs=True) as scope:
            yield Ref(outer.ref("out", opened.id))
        if not scope.nodes:
            raise mistake(f"the {base} has no nodes in it")
        body = Graph(nodes=tuple(scope.nodes), result=scope.outputs(), ordered=ordered, limit=limit)
        end(trace, opened, self._options, Block(body=body))

    # --- functions that write nodes --------------------------------------------------------------

    def _body_region(self, owner: str, body: object, limit: int) -> Graph:
        if callable(body) and not isinstance(body, Ref):
            self._check_body(body, 0, limit)
        return self._trace.region(owner, body)[0]

    @staticmethod
    def _check_body(body: Any, least: int, limit: int) -> list[str]:
        """Return the names of a body's parameters; refuse values that are not functions, and tools."""
        if not callable(body) or isinstance(body, Ref):
            raise mistake(f"the body of a loop must be a function, not {body!r}")
        if tool_of(body) is not None or is_async(body):
            name = getattr(body, "__name__", "it")
            raise mistake(f"{name} is a tool and would be called now; write lambda ...: flow.call({name}, ...)")
        names = parameters(body)
        if not least <= len(names) <= limit:
            takes = {
                (1, 2): "an element, or an element and its position",
                (2, 2): "the value so far and an element",
                (0, 1): "nothing, or the number of the iteration",
            }
            raise mistake(f"the function takes {takes.get((least, limit), 'nothing')}, not {len(names)} arguments")
        return names


def _check_concurrency(concurrency: int | None) -> None:
    if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
        raise mistake(f"concurrency is a number of 1 or more, or None for all at once, not {concurrency!r}")


def _named(tool: Tool, values: tuple[object, ...], named: dict[str, object]) -> dict[str, object]:
    """Name the arguments that a function gets by position."""
    names = list(tool.input_schema.get("properties", {}))
    if len(values) > len(names):
        raise mistake(f"{tool.id} takes at most {len(names)} arguments, and {len(values)} are given by position")
    positional = dict(zip(names, values, strict=False))
    if twice := positional.keys() & named.keys():
        raise mistake(f"{tool.id} gets {', '.join(sorted(twice))} by position and by name; give it once")
    return positional


def _check_arguments(tool: Tool, args: dict[str, object]) -> None:
    """Check the names of arguments at once; their types are checked when the flow is finished."""
    schema = tool.input_schema
    properties = schema.get("properties", {})
    if schema.get("additionalProperties") is False:
        for name in args:
            if name not in properties:
                takes = f"it takes {', '.join(properties)}" if properties else "it takes none"
                raise mistake(f"{tool.id} has no argument {name!r}; {takes}", name, properties)
    missing = [name for name in schema.get("required", ()) if name not in args]
    if missing:
        raise mistake(f"{tool.id} needs {', '.join(missing)}")


__all__ = ["Nodes"]
