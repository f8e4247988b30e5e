"""The nodes a flow can be written with: one method each. A new op gets its method here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, overload

from ..ir import Graph
from ..ops import Block, Branch, Call, Compute, Loop, Map, Sleep, Validate, Wait
from ..tools.signature import is_async, schema_of
from ..tools.tool import Tool, tool_from, tool_of
from .function import parameters
from .mistake import mistake
from .ref import Ref
from .scope import Binds, Trace, as_name
from .step import NO_OPTIONS, Options, State, add, begin, end

R = TypeVar("R")
X = TypeVar("X")
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    Y = TypeVarWithDefault("Y", default=Any)
else:
    Y = TypeVar("Y")
Plain: TypeAlias = dict[str, Any] | list[Any] | tuple[Any, ...] | str | float | None
"""What a body may return beside references."""


class Nodes:
    """Writes nodes at the place that the flow has reached."""

    def __init__(self, trace: Trace, options: Options = NO_OPTIONS) -> None:
        self._trace, self._options = trace, options

    # --- one thing ------------------------------------------------------------------------------

    @overload
    def call(self, tool: Callable[..., AsyncIterator[R]], /, **args: object) -> Ref[Any]: ...
    @overload
    def call(self, tool: Callable[..., Awaitable[R]], /, **args: object) -> Ref[R]: ...
    @overload
    def call(self, tool: Callable[..., R], /, **args: object) -> Ref[R]: ...
    @overload
    def call(self, tool: str | Tool, /, **args: object) -> Ref[Any]: ...
    def call(self, tool: Any, /, *positional: object, **args: object) -> Ref[Any]:
        """Call a tool: a function, a Tool, or the id of one that only the toolbox knows."""
        if positional:
            raise mistake("the arguments of a tool are given by name: flow.call(tool, name=value)")
        known = None if isinstance(tool, str) else self._known(tool)
        if known is not None:
            _fits(known, args)
        id = known.id if known is not None else str(tool)
        base = as_name(known.name if known is not None else id.split(":")[1 if id.count(":") else 0])
        return add(self._trace, base, self._options, lambda _: Call(tool=id, args=self._trace.lower(args)))

    def _known(self, given: Any) -> Tool:
        if hasattr(given, "__await__"):
            raise mistake("the tool has already been called: hand over the function and its arguments apart")
        if isinstance(given, Ref):
            raise mistake(f"references stand for values, not for tools: {given!r}")
        tool = given if isinstance(given, Tool) else tool_from(given)
        before = self._trace.tools.setdefault(tool.id, tool)
        if before is not tool and before != tool:
            raise mistake(f"two different tools are called {tool.id!r}; give one of them another name")
        return tool

    def value(self, value: object, /) -> Ref[Any]:
        """Compute a value once, as a node of its own."""
        return add(self._trace, "value", self._options, lambda _: Compute(value=self._trace.lower(value)))

    def set(self, state: State[X], value: Ref[X] | X, /) -> Ref[X]:
        """Write a piece of state."""
        if not isinstance(state, State):
            raise mistake(f"what is written is a state made by flow.state(...), not {state!r}")
        options = replace(self._options, into=state)
        return add(self._trace, f"set_{state._channel}", options, lambda _: Compute(value=self._trace.lower(value)))

    def sleep(self, seconds: float | Ref[float], /) -> Ref[None]:
        """Wait; a run that is resumed waits only what is left."""
        return add(self._trace, "sleep", self._options, lambda _: Sleep(seconds=self._trace.lower(seconds)))

    def wait(self, event: str | Ref[str], /, *, timeout: float | Ref[float] | None = None) -> Ref[Any]:
        """Wait for an event of this name, at most `timeout` seconds; the value is what was sent."""
        return self._wait(event, None, timeout)

    def approval(self, text: str | Ref[str], /, *, timeout: float | Ref[float] | None = None) -> Ref[dict[str, Any]]:
        """Wait until somebody approves what the text asks; the value is `{approved, by, note}`. A refusal fails
        the node."""
        return self._wait(None, text, timeout)

    def _wait(self, event: object, text: object, timeout: object) -> Ref[Any]:
        def make(_: str) -> Wait:
            lower = self._trace.lower
            seconds = timeout if timeout is not None else self._options.timeout
            return Wait(
                event=None if event is None else lower(event, "event"),
                approval=None if text is None else lower(text, "approval"),
                timeout=None if seconds is None else lower(seconds, "timeout"),
            )

        options = replace(self._options, timeout=None)  # a wait keeps its own time, through restarts
        return add(self._trace, "wait" if text is None else "approval", options, make)

    # --- choices --------------------------------------------------------------------------------

    def when(self, test: object, then: object, otherwise: object = None) -> Ref[Any]:
        """Do one thing or the other: functions that write nodes and return a value, or plain values."""
        return self.cases((test, then), otherwise=otherwise)

    def cases(self, *arms: tuple[object, object], otherwise: object = None) -> Ref[Any]:
        """Do what stands beside the first condition that holds, else `otherwise`."""
        if not arms or not all(isinstance(arm, tuple) and len(arm) == 2 for arm in arms):
            raise mistake("cases takes pairs of a condition and what to do where it holds")

        def make(id: str) -> Branch:
            tests = [self._trace.lower(test, "condition") for test, _ in arms]
            bodies = [self._region(id, then, 0) for _, then in arms]
            default = None if otherwise is None else self._region(id, otherwise, 0)
            return Branch(arms=tuple(zip(tests, bodies, strict=True)), default=default)

        return add(self._trace, "when", self._options, make)

    # --- repetition -----------------------------------------------------------------------------

    def for_each(
        self, items: Ref[list[X]] | Sequence[X],
        body: Callable[[Ref[X]], Ref[Y] | Plain] | Callable[[Ref[X], Ref[int]], Ref[Y] | Plain], *,
        concurrency: int | None = 1,
    ) -> Ref[list[Y]]:  # fmt: skip
        """Do something for every element; the value is the list of what the function returns.

        One after another, each seeing the state the last one left; with `concurrency` so many at
        once (None: all), independent of each other. The function takes the element, and its position
        if it wants it.
        """
        _check_width(concurrency)

        def make(id: str) -> Loop | Map:
            over = self._trace.lower(items, "items")
            names = [*self._function(body, 1, 2), "index"]
            one_by_one = concurrency == 1
            binds = Binds(item=names[0], index=names[1], round="round" if one_by_one else "")
            graph, _ = self._trace.region(id, body, ("item", "index")[: len(names) - 1], binds)
            return Loop(items=over, body=graph) if one_by_one else Map(items=over, body=graph, limit=concurrency)

        return add(self._trace, "for_each", self._options, make)

    def select(
        self, items: Ref[list[X]] | Sequence[X], test: Callable[[Ref[X]], object], *, concurrency: int | None = 1
    ) -> Ref[list[X]]:
        """The elements that pass a test which calls tools; one that only computes is `items.filter(...)`."""
        _check_width(concurrency)

        def make(id: str) -> Map:
            over, names = self._trace.lower(items, "items"), [*self._function(test, 1, 2), "index"]
            binds = Binds(item=names[0], index=names[1])
            graph, _ = self._trace.region(id, test, ("item", "index")[: len(names) - 1], binds)
            return Map(items=over, body=graph, limit=concurrency, select=True)

        return add(self._trace, "select", self._options, make)

    def fold(
        self, items: Ref[list[X]] | Sequence[X], body: Callable[[Ref[Y], Ref[X]], Ref[Y] | Plain], start: Y | Ref[Y]
    ) -> Ref[Y]:
        """One value of all elements, one after another: what `body` makes of the value so far and an element.
        One that only computes is `items.reduce(...)`."""

        def make(id: str) -> Loop:
            over, initial = self._trace.lower(items, "items"), self._trace.lower(start, "start")
            names = self._function(body, 2, 2)
            binds = Binds(prev=names[0], item=names[1], index="index", round="round")
            graph, _ = self._trace.region(id, body, ("prev", "item"), binds)
            return Loop(items=over, body=graph, collect=False, initial=initial)

        return add(self._trace, "fold", self._options, make)

    def check(self, value: Ref[X] | object, type: Any, /) -> Ref[Any]:
        """The value itself where it fits a type or a JSON Schema; else the node fails with all that does not."""
        schema = type if isinstance(type, dict) else schema_of(type, "the type of a check")
        return add(
            self._trace, "check", self._options, lambda _: Validate(value=self._trace.lower(value), schema=schema)
        )

    @overload
    def loop(
        self, body: Callable[[], Ref[Y] | Plain] | Callable[[Ref[int]], Ref[Y] | Plain], *, limit: int,
        until: Callable[[Ref[Y]], object] | Ref[Any] | None = None,
        while_: Callable[[Ref[Y]], object] | Ref[Any] | None = None, collect: Literal[True] = True,
    ) -> Ref[list[Y]]: ...  # fmt: skip
    @overload
    def loop(
        self, body: Callable[[], Ref[Y] | Plain] | Callable[[Ref[int]], Ref[Y] | Plain], *, limit: int,
        until: Callable[[Ref[Y]], object] | Ref[Any] | None = None,
        while_: Callable[[Ref[Y]], object] | Ref[Any] | None = None, collect: Literal[False],
    ) -> Ref[Y]: ...  # fmt: skip
    def loop(
        self, body: Callable[..., object], *, limit: int, until: object = None, while_: object = None,
        collect: bool = True,
    ) -> Ref[Any]:  # fmt: skip
        """Do something again and again, at most `limit` times: while `while_` holds before a round,
        until `until` holds after one; both may be functions of the last round's value.

        The function takes the number of the round, from 0, if it wants it. The value is the list of
        what it returned, or with `collect=False` the last of them.
        """
        if type(limit) is not int or limit < 1:
            raise mistake(f"a loop ends: limit is a number of rounds of 1 or more, not {limit!r}")
        tests = {name: test for name, test in (("until", until), ("again", while_)) if test is not None}

        def make(id: str) -> Loop:
            names = self._function(body, 0, 1)
            binds = Binds(round=names[0] if names else "round")
            graph, found = self._trace.region(id, body, ("round",)[: len(names)], binds, list(tests.values()))
            return Loop(body=graph, limit=limit, collect=collect, **dict(zip(tests, found, strict=True)))

        return add(self._trace, "loop", self._options, make)

    # --- blocks ---------------------------------------------------------------------------------

    @contextmanager
    def parallel(self, *, limit: int | None = None) -> Iterator[Ref[Any]]:
        """What is written inside runs at once, at most `limit` at a time; what uses another's value
        waits for it. The nodes can be used after the block; its own value is the object of them."""
        with self._block("parallel", False, limit) as block:
            yield block

    @contextmanager
    def block(self) -> Iterator[Ref[Any]]:
        """What is written inside is one node, so that one timeout, retry or fallback covers all of it."""
        with self._block("block", True, None) as block:
            yield block

    @contextmanager
    def _block(self, base: str, ordered: bool, limit: int | None) -> Iterator[Ref[Any]]:
        trace = self._trace
        opened = begin(trace, base, self._options)
        outer = trace.here
        with trace.inside(opened.id, ordered=ordered, named=True) as scope:
            yield Ref(outer.ref("out", opened.id))
        if not scope.nodes:
            raise mistake(f"the {base} has no nodes in it")
        body = Graph(nodes=tuple(scope.nodes), result=scope.outputs(), ordered=ordered, limit=limit)
        end(trace, opened, self._options, Block(body=body))

    # --- functions that write nodes --------------------------------------------------------------

    def _region(self, owner: str, body: object, most: int) -> Graph:
        if callable(body) and not isinstance(body, Ref):
            self._function(body, 0, most)
        return self._trace.region(owner, body)[0]

    @staticmethod
    def _function(body: Any, least: int, most: int) -> list[str]:
        """The names of what a body takes; refused is what is no function, or a tool itself."""
        if not callable(body) or isinstance(body, Ref):
            raise mistake(f"what is done each time is a function, not {body!r}")
        if tool_of(body) is not None or is_async(body):
            name = getattr(body, "__name__", "it")
            raise mistake(f"{name} is a tool and would be called now; write lambda ...: flow.call({name}, ...)")
        names = parameters(body)
        if not least <= len(names) <= most:
            takes = {
                (1, 2): "an element, or an element and its position",
                (2, 2): "the value so far and an element",
                (0, 1): "nothing, or the round",
            }
            raise mistake(f"the function takes {takes.get((least, most), 'nothing')}, not {len(names)} arguments")
        return names


def _check_width(concurrency: int | None) -> None:
    if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
        raise mistake(f"concurrency is a number of 1 or more, or None for all at once, not {concurrency!r}")


def _fits(tool: Tool, args: dict[str, object]) -> None:
    """Names of arguments, told at once; their types are checked when the flow is finished."""
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
