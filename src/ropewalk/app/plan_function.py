"""Flows as Python functions: `@plan` on an `async def`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from ..builder.plan import PLAN, PlanProgram, signature_of
from ..config.settings import Parallel
from ..duration import read_duration
from ..errors import InvalidFlow, Problem
from ..notations.plan.readers import HERE
from ..notations.plan.tools import entry_of, with_tools
from ..tools.tool import Tool
from ..tools.toolbox import Toolbox
from ..values import Json
from .current import current_app

if TYPE_CHECKING:
    from .prepared import Prepared

P = ParamSpec("P")
R = TypeVar("R")


class Plan(Generic[P, R]):
    """A flow that is written as a Python function."""

    # `@plan` makes it.
    # The function is compiled to a graph and never executed. Pass the object wherever a definition goes: `app.run`,
    # `app.validate`, `app.preview`, `app.as_tool`. Calling it runs it, and gives the result.
    #
    # `name`: The name of the flow.
    # `description`: What the flow does, from the docstring.

    def __init__(
        self,
        function: Callable[P, Coroutine[Any, Any, R]],
        name: str | None = None,
        description: str | None = None,
        timeout: float | str | None = None,
        mcp_prompt: bool = False,
        parallel: Parallel = "none",
    ) -> None:
        if not inspect.isfunction(function):
            what = f"@plan goes above an async def, not above {type(function).__name__}"
            raise InvalidFlow([Problem(path="", message=what)])
        update_wrapper(self, function)
        setattr(self, PLAN, function)
        self.function, self.timeout, self.parallel = function, read_duration(timeout), parallel
        self.mcp_prompt = mcp_prompt
        self.name = name or function.__name__
        self._description = description
        self.known: tuple[Any, int, Prepared] | None = None

    @property
    def description(self) -> str:
        """The description of the flow."""
        return self._description if self._description is not None else self.signature.description

    @cached_property
    def signature(self) -> Any:
        """The schemas of parameters and result, and the description."""
        return signature_of(self.function)

    @cached_property
    def program(self) -> PlanProgram:
        """The program of the function."""

        # Constants of its module have the values of the first use.
        return PlanProgram(self.function)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of the module that the function calls."""
        return tuple({tool.id: tool for tool in self.program.tools.values()}.values())

    @property
    def read_result(self) -> Callable[[Any], Any] | None:
        """The converter from a result to the declared type; None for plain JSON."""
        return self.signature.read_result  # type: ignore[no-any-return]

    def document_for(self, toolbox: Toolbox, effects: Mapping[str, str] | None = None) -> dict[str, Json]:
        """Return the plan as a document."""
        signature = self.signature
        document: dict[str, Any] = {
            "kind": "plan",
            "name": self.name,
            "code": self.program.code,
            "function": True,
            "input": signature.input_schema,
        }
        # Leave out what is not set, so that the defaults of plans apply.
        if self.description:
            document["description"] = self.description
        if signature.output_schema:
            document["output"] = signature.output_schema
        if self.program.refused_names:
            document["inputs"] = list(self.program.refused_names)
        if self.program.transforms:
            document["transforms"] = dict(self.program.transforms)
        if self.mcp_prompt:
            document["mcpPrompt"] = True
        if self.timeout is not None:
            # Documents count milliseconds, Python seconds.
            document["timeout"] = self.timeout * 1000
        if self.parallel != "none":
            document["parallel"] = self.parallel
        # The module's own tools replace tools of the toolbox that have the same name.
        own: Any = {name: entry_of(tool, effects) for name, tool in self.program.tools.items()}
        unbound_tools: Any = with_tools(document, toolbox, HERE, effects)["tools"]
        return {**document, "tools": {**unbound_tools, **own}}

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the plan and return its result."""

        # It runs in the app of the surrounding `async with App(...)`, otherwise in an app of its own that keeps
        # nothing.
        from .app import App

        bound = inspect.signature(self.function).bind(*args, **kwargs)
        app = current_app()
        if app is not None:
            return (await app.run(self, dict(bound.arguments))).value
        async with App("memory") as own:
            return (await own.run(self, dict(bound.arguments))).value

    def _repr_svg_(self) -> str:
        """Return the drawing that notebooks show."""
        from .app import App

        return App("memory").draw(self, "svg")

    def __repr__(self) -> str:
        return f"<plan {self.name!r}>"


@overload
def plan(function: Callable[P, Coroutine[Any, Any, R]], /) -> Plan[P, R]: ...
@overload
def plan(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | str | None = None,
    parallel: Parallel = "none",
    mcp_prompt: bool = False,
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Plan[P, R]]: ...
def plan(function: Any = None, /, **options: Any) -> Any:
    """Make a flow of an async function.

    The function is read, checked and compiled to a graph; Python never executes it. Its parameters are the input, its
    return annotation is the type of the result, its docstring the description.

    Args:
        function: The function, if the decorator is used without parentheses.
        **options: `name` and `description` replace those of the function; `timeout` is in seconds for the whole run,
            or text such as "10s". `parallel` names the calls that overlap where Python makes one after another: "none",
            or "reads" (those of tools that only read).
            With `mcp_prompt` MCP clients also get it as a prompt.

    Returns:
        A `Plan`, which is a definition like a file or a `flow(...)`.

    Raises:
        InvalidFlow: The decorated object is not a function. `app.validate` and the first run report errors
            inside the function.
    """
    if function is None:
        return lambda wrapped: Plan(wrapped, **options)
    return Plan(function)
