"""The Runner with its chains: single calls come from `tools/`, sequences run on the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from ..engine.compile.program import compile_flow
from ..engine.engine import run_program
from ..errors import NodeFailed, ToolError
from ..notations.runchain import flow_of
from ..tools import ChainResult, ChainStep, StepResult
from ..tools.backends.route import OnProgress
from ..tools.bound_call import Progress
from ..tools.runner import Runner as CallRunner
from ..tools.tool import ProgressEvent, RunResult
from ..values import Json


class Runner(CallRunner):
    """Runs tools: one call, a stream, or a chain of steps with data passed along."""

    async def run_chain(self, steps: Sequence[ChainStep] | None) -> ChainResult:
        """Call tools one after another and stop at the first error.

        Args:
            steps: The steps; None is an empty chain.

        Returns:
            The result of the last step, and every step.

        Raises:
            ToolError: A step failed; `.steps` has every StepResult so far, the failed one included. A cancellation has
                it too.
        """
        return await self._chain(steps, None)

    async def run_chain_with_progress(self, steps: Sequence[ChainStep] | None, on_progress: OnProgress) -> ChainResult:
        """Call tools one after another and report the progress.

        Args:
            steps: The steps, as for `run_chain`.
            on_progress: Called with (0, N, "started") and then (i, N, "step_completed" or "step_error"). If it raises,
                the error is logged and the chain continues.

        Returns:
            The result, as that of `run_chain`.
        """
        return await self._chain(steps, on_progress)

    async def _chain(self, steps: Sequence[ChainStep] | None, on_progress: OnProgress | None) -> ChainResult:
        steps = () if steps is None else steps
        if not isinstance(steps, Iterable):
            raise TypeError(f"steps are a list of ChainStep, not {type(steps).__name__}")
        step_list = list(steps)
        if not step_list:
            return ChainResult()
        calls = _Calls(self, len(step_list), on_progress)
        try:
            program = compile_flow(flow_of(step_list), calls)
        except ToolError as exc:
            exc.steps = [StepResult(exc.tool_id, error=exc)]
            raise
        calls.tell(0, "started")
        try:
            ending = await run_program(program)
        except asyncio.CancelledError as exc:
            exc.steps = calls.done  # type: ignore[attr-defined]
            raise
        finally:
            await calls.progress.flush()
        # Callers expect the error of the tool itself, not the engine's error around it.
        if ending.error is None:
            return ChainResult(calls.done[-1].result, tuple(calls.done))
        cause = ending.error.__cause__ if isinstance(ending.error, NodeFailed) else None
        error = cause if isinstance(cause, ToolError) else ending.error
        if isinstance(error, ToolError):
            error.steps = list(calls.done)
        raise error


class _Calls:
    """The engine's caller for one chain: every call through `Runner.run`, its RunResult kept."""

    version = 0

    def __init__(self, runner: CallRunner, total: int, on_progress: OnProgress | None) -> None:
        self.runner, self.total, self.progress = runner, total, Progress(on_progress)
        self.done: list[StepResult] = []

    def bind(self, tool_id: str, /) -> _Step:
        return _Step(self, tool_id)

    def tell(self, count: int, message: str) -> None:
        self.progress.report(ProgressEvent(count, self.total, message))


class _Step:
    direct = None
    timeout = None

    def __init__(self, calls: _Calls, tool_id: str) -> None:
        self.calls, self.tool_id = calls, tool_id

    async def call(self, args: dict[str, Json], key: str | None = None) -> Json:
        calls = self.calls
        number = len(calls.done) + 1
        try:
            result: RunResult = await calls.runner.run(self.tool_id, args)
        except ToolError as exc:
            calls.done.append(StepResult(self.tool_id, exc.backend, None, exc))
            calls.tell(number, "step_error")
            raise
        calls.done.append(StepResult(self.tool_id, result.backend, result))
        calls.tell(number, "step_completed")
        return result.structured
