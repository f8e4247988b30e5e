"""The budget of a plan's run: calls of tools, tokens and US dollars, for the run and all flows that it calls.

Every limit is checked before a call. The number of calls is therefore never exceeded; tokens and dollars are exceeded
at most by the turns of models that are in progress. The limits are recorded in the context of the run, and what
is used is counted from the journal, so a run that another process resumes has the same budget.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..engine.engine import Job
from ..engine.flow_tool import FlowTool, flow_tool_of
from ..errors import InvalidInput, Problem, RopewalkError, ToolError
from ..ir import Flow
from ..journal.protocol import Entry, RunRow
from ..ops import calls_of
from ..values import Json
from .pinned_definition import MOST_PARTS, pinned_definition

if TYPE_CHECKING:
    from .context import Context

LIMITS: Final = ("calls", "tokens", "cost")
"""What a budget limits beside `seconds`, which the timeout of the run limits."""
_CALLS: Final = ("call", "call_failed")
_MODEL: Final = "ropewalk:model"


class BudgetExceeded(ToolError):
    """A run has used up its budget; the call was not made."""

    # `limit`: The limit that is reached: `calls`, `tokens` or `cost`.

    retryable = False

    def __init__(self, tool_id: str, limit: str, message: str) -> None:
        self.limit = limit
        super().__init__(tool_id, "execute", message)


class RunBudget:
    """The budget of one run and of the flows that it calls, and how much of it is used."""

    def __init__(self, limits: Mapping[str, float], calls: int = 0, turns: Iterable[Any] = ()) -> None:
        self.limits = dict(limits)
        self.used: dict[str, float] = {"calls": calls, "tokens": 0, "cost": 0.0}
        self._is_price_known = True
        for turn in turns:
            self.add_turn(turn)

    def take(self, tool: str) -> None:
        """Count one call."""
        for name, limit in self.limits.items():
            if self.used[name] >= limit:
                raise BudgetExceeded(tool, name, f"the budget of {_amount(name, limit)} is used up")
        if "cost" in self.limits and not self._is_price_known:
            raise BudgetExceeded(tool, "cost", "the price of a model is not known; limit tokens instead of cost")
        self.used["calls"] += 1

    def add_turn(self, turn: Any) -> None:
        """Add what a model has used."""
        if isinstance(turn, Mapping):
            self.used["tokens"] += sum((turn.get("usage") or {}).values())
            cost = turn.get("cost")
            self._is_price_known &= cost is not None
            self.used["cost"] += cost or 0.0


def _amount(name: str, limit: float) -> str:
    if name == "cost":
        return f"{limit:,.10g} US dollars"
    unit = name[:-1] if limit == 1 else name
    return f"{limit:,.10g} {unit}"


class BudgetedCaller:
    """Counts every call of a run, those of inner flows included, and refuses calls over the budget."""

    def __init__(self, caller: Any, budget: RunBudget) -> None:
        self._caller, self._budget = caller, budget

    def __getattr__(self, name: str) -> Any:
        return getattr(self._caller, name)  # `version`, and what callers of directories have

    def bind(self, tool_id: str) -> Any:
        """Return a bound tool that takes one call from the budget each time."""
        bound, budget = self._caller.bind(tool_id), self._budget
        if tool_id.startswith("ropewalk:") and tool_id != _MODEL:
            return bound
        flow = flow_tool_of(bound.tool)
        binder = getattr(self._caller, "bind_handler", None)
        if flow is not None and binder is not None:
            bound = binder(bound.tool, _budgeted(flow, budget))
        inner = bound.call

        async def call(args: Any, *more: Any, **named: Any) -> Json:
            budget.take(tool_id)
            value: Json = await inner(args, *more, **named)
            if tool_id == _MODEL:
                budget.add_turn(value)
            return value

        return replace(bound, call=call, direct=None)


def _budgeted(flow: FlowTool, budget: RunBudget) -> FlowTool:
    """Return a flow tool whose own calls are counted, too."""
    caller, job_for_row = BudgetedCaller(flow.host.caller, budget), flow.host.job_for_row
    if job_for_row is None:
        return flow.with_host(caller=caller)

    async def budgeted_job_for_row(row: RunRow) -> Job:
        job = await job_for_row(row)
        job.caller = BudgetedCaller(job.caller, budget)
        return job

    return flow.with_host(caller=caller, job_for_row=budgeted_job_for_row)


def budget_of_run(context: Context, limits: Mapping[str, Any], row: RunRow | None, flow: Flow) -> RunBudget | None:
    """Return the budget of a run, less what is recorded of it."""
    budget = {name: limits[name] for name in LIMITS if limits.get(name) is not None}
    if not budget:
        return None
    if row is None:
        return RunBudget(budget)
    made = list(_recorded_calls(context, row, flow))
    return RunBudget(budget, len(made), (entry.data for tool, entry in made if tool == _MODEL))


def _recorded_calls(context: Context, row: RunRow, flow: Flow | None) -> Iterator[tuple[str, Entry]]:
    """Yield the recorded calls of a run and of the runs of the flows that it called, each with its tool."""
    with contextlib.suppress(RopewalkError):  # a definition that is gone: its calls count, its tokens are not known
        flow = flow or pinned_definition(context, row).flow
    tools = {} if flow is None else {node.id: node.op.tool for node in calls_of(flow.body)}
    for entry in context.history(row.id):
        tool = tools.get(entry.node, "")
        if entry.kind in _CALLS and (tool == _MODEL or not tool.startswith("ropewalk:")):
            yield tool, entry
    for part in context.store.list_runs(parent=row.id, limit=MOST_PARTS):
        whole = context.store.get_run(part.id)  # rows of lists have no document
        if whole is not None:
            yield from _recorded_calls(context, whole, None)


def read_budget(budget: Mapping[str, Json] | None) -> tuple[dict[str, Json], dict[str, Json]]:
    """Read a budget as a client gives it."""

    # `budget`: `calls`, `tokens`, `cost` in US dollars, and `seconds`.
    limits: dict[str, Json] = {}
    fields: dict[str, Json] = {}
    problems = []
    for name, value in (budget or {}).items():
        if value is None:
            continue
        # In Python, bool is a subclass of int; True is no limit.
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if name in ("calls", "tokens"):
            limits[name] = value
            expected = "" if isinstance(value, int) and is_number and value >= 0 else "must be an integer of 0 or more"
        elif name == "cost":
            limits[name] = value
            expected = "" if is_number and value >= 0 else "must be a number from 0, in US dollars"
        elif name == "seconds":
            expected = "" if is_number and value > 0 else "must be a number above 0"
            if not expected:
                # The document limits the time, in milliseconds; the run limits the rest.
                fields["timeout"] = round(value * 1000)
        else:
            expected = "must be calls, seconds, tokens or cost"
        if expected:
            problems.append(Problem(path=f"budget.{name}", message=expected))
    if problems:
        raise InvalidInput(problems)
    return limits, fields


__all__ = ["BudgetExceeded", "BudgetedCaller", "RunBudget", "budget_of_run", "read_budget"]
