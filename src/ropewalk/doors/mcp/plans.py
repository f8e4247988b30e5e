"""The operations on plans as tools of the MCP server: find, check, run, resume, undo, save."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...app.plan_operations import OPERATIONS, Operation, call_operation
from ...app.saved_plans import register_saved_plans
from ...app.start import Start
from ...engine.engine import new_run_id
from ...engine.flow_tool import flow_tool_of
from ...tools.bound_call import Progress
from ...tools.reserved import PLANS
from ...tools.tool import Tool
from ...values import Json, digest
from .flows import Steps
from .results import given
from .tool_source import Call, CallContext, ExposedTool

if TYPE_CHECKING:
    from ...app.app import App

_OUTPUT: Final[dict[str, Json]] = {"type": "object"}
Answer: TypeAlias = Callable[[Start], Awaitable[dict[str, Json]]]
"""Answers a call with arguments, the id of the run that it may start, and a watcher of events."""


class PlanOperations:
    """The operations, as a source of tools."""

    # A client cannot approve the requests of its own model, unless `[plans] decide` allows it. With `saved_only`, it
    # calls saved plans as tools, and writes no programs.

    def __init__(self, app: App, *, saved_only: bool = False) -> None:
        self._app, self._saved_only = app, saved_only

    def version(self) -> Any:
        """Return the version of the toolbox, which has the saved plans."""
        return self._app.toolbox.version

    def offered(self) -> Iterator[ExposedTool]:
        """Return one tool per operation, and one per saved plan."""
        for operation in () if self._saved_only else OPERATIONS.values():
            yield self._offer(operation)
        for tool in self._app.toolbox.list():
            if tool.namespace == PLANS and flow_tool_of(tool) is not None:
                yield self._offer_saved(tool)

    async def connect(self) -> None:
        """Register the saved plans."""

        # An operation connects what else it needs.
        await register_saved_plans(self._app.jobs)

    async def reach(self, name: str) -> None:
        """Do nothing: the operations are there without any server."""

    def _offer(self, operation: Operation) -> ExposedTool:
        plans = self._app.plans.for_models()

        async def answer(start: Start) -> dict[str, Json]:
            return await call_operation(plans, operation.name, start.input, by="mcp", start=start)

        return ExposedTool(
            id=f"plans/{operation.name}",
            wanted=operation.name,
            description=operation.description,
            input_schema=operation.schema,
            output_schema=_OUTPUT,
            annotations={"readOnlyHint": True} if operation.reads else {"destructiveHint": True},
            call=_watched(operation.name, answer),
            own=True,
        )

    def _offer_saved(self, tool: Tool) -> ExposedTool:
        flow = flow_tool_of(tool)
        assert flow is not None
        document: Any = {**flow.source.document, "kind": flow.kind}

        async def answer(start: Start) -> dict[str, Json]:
            loaded = self._app.definitions.get(document)
            return await self._app.plans.start(replace(start, definition=loaded), {})

        return ExposedTool(
            id=tool.id,  # by which the selector ranks it and learns from its calls
            wanted=tool.name,
            description=tool.description,
            input_schema=tool.input_schema,
            output_schema=_OUTPUT,
            call=_watched(tool.id, answer),
        )


def _watched(name: str, answer: Answer) -> Call:
    """Return the call of an operation, whose run reports progress to the client."""

    # A key names the run.

    async def call(args: dict[str, Json], context: CallContext) -> Any:
        progress = Progress(context.on_progress)
        steps = Steps(progress, counted=False)
        run_id = new_run_id() if context.key is None else f"mcp-{digest([name, context.key])}"
        on_event = steps.take if context.on_progress is not None else None
        result = await answer(Start(input=args, run_id=run_id, on_event=on_event))
        steps.flush()
        await progress.flush()
        return given(result, _OUTPUT)

    return call
