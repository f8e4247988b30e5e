"""Budgets of runs: calls of tools, seconds, tokens of models and US dollars, kept in the ledger of the store.

A run records in its context which accounts it counts for, so it has the same budgets after a resume. A part of a run
counts for the accounts of its outer run as well. A run and its corrections share one account. Every call is reserved
before it is made and settled after it. The number of calls is therefore never exceeded; tokens and dollars are exceeded
at most by the turns of models that are in progress. A recorded result that a run takes over counts for nothing.
"""

from __future__ import annotations

import contextlib
import math
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar, Token
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..errors import BudgetExceeded, NodeFailed, StoreError
from ..journal.address import run_sync_in_thread
from ..journal.ledger import Exhausted, LedgerStore, Limits
from ..journal.protocol import NewRun, RunRow
from ..ops import MODEL
from ..values import Json

if TYPE_CHECKING:
    from .engine import Job

CONTEXT: Final = "budgets"
"""The member of a run's context with its accounts and their limits."""
_INNER: Final = "inner"
"""The member of a run's context that names the accounts of the run itself, without those of its outer run."""

_KEPT: Final = 2 * 86_400.0
"""Seconds after its last run began for which an account is kept in any case: more than the day that it may be for."""


_outer: ContextVar[Limits] = ContextVar("ropewalk_budgets", default={})  # noqa: B039 - never changed
"""The accounts of the run around the current task."""


def run_account(run_id: str) -> str:
    """Return the account of a run and its corrections, by the id of the first of them."""
    return f"run:{run_id}"


def open_budgets(job: Job, project: Callable[[Job, bool], Limits]) -> None:
    """Record the accounts of a new run: its own, its project's, and those of runs that it corrects or is part of."""
    outer = _outer.get()
    own = {run_account(job.chain or job.new.id): limits} if (limits := _own_limits(job)) else {}
    # Corrections keep the limits of the run that they correct, and the project may change its own.
    accounts = {**outer, **own, **job.corrected, **project(job, bool(outer) or job.parent is not None)}
    if accounts:
        inner = sorted(accounts.keys() - outer.keys())
        job.new = replace(job.new, context={**(job.new.context or {}), CONTEXT: accounts, _INNER: inner})


def _own_limits(job: Job) -> dict[str, float]:
    """Return the limits of a run: of its own and of its definition the lower ones."""
    if not job.flow.budget and not job.budget:
        return {}
    limits = dict(job.flow.budget or {})
    for name, limit in (job.budget or {}).items():
        limits[name] = min(limit, limits.get(name, limit))
    return limits


def enter(row: RunRow | NewRun) -> Token[Limits] | None:
    """Let the runs that begin inside a run count for its accounts, until `leave` is called."""
    limits = limits_of(row)
    return _outer.set(limits) if limits or _outer.get() else None


def leave(token: Token[Limits] | None) -> None:
    """End what `enter` began."""
    if token is not None:
        with contextlib.suppress(ValueError):  # a coroutine that is closed from outside is in another context
            _outer.reset(token)


def ends_run(failed: NodeFailed) -> bool:
    """Return True if a failure is that a budget of the current run is used up, and not only that of a part of it."""
    limits = _outer.get()
    return any(budget["account"] in limits for budget in failed.budgets)


def limits_of(row: RunRow | NewRun) -> Limits:
    """Return the accounts that a run counts for, with the limits of each."""
    context: Any = row.context or {}
    limits: Limits = context.get(CONTEXT) or {}
    return limits


def has_ledger(store: object) -> bool:
    """Return True if a store keeps a ledger, without which no run has a budget."""
    return isinstance(store, LedgerStore)


async def begin(job: Job, row: RunRow | NewRun, store: Any) -> BudgetExceeded | None:
    """Let a job keep to the budgets of its run, and return the error if its time ends by one of them."""
    limits = limits_of(row)
    inner = {account: limits[account] for account in row.context[_INNER]} if limits else {}
    joined = [*inner, *([run_account(job.chain)] if job.chain else [])]
    if joined and has_ledger(store):
        await run_sync_in_thread(store, lambda: join(store, row.id, joined))
    if not limits:
        return None
    if not has_ledger(store):
        raise StoreError("this store keeps no ledger, so it cannot hold runs to a budget; use another store")
    await run_sync_in_thread(store, lambda: store.reserve(_time_key(row.id), inner, 0))
    used = await run_sync_in_thread(store, lambda: {account: store.used(account) for account in limits})
    late: BudgetExceeded | None = None
    for account, budget in limits.items():
        rest = max(0.0, budget.get("seconds", math.inf) - used[account]["seconds"])
        if rest < (math.inf if job.flow.timeout is None else job.flow.timeout):
            job.flow = replace(job.flow, timeout=rest)
            seconds = budget["seconds"]
            late = budget_exceeded("", Exhausted(account=account, amount="seconds", limit=seconds, used=seconds))
    limit_calls(job, row, store)
    return late


def join(store: Any, run_id: str, accounts: Iterable[str]) -> None:
    """Let a run count for accounts of the ledger until it is deleted."""
    store.join(run_id, accounts, time.time() + _KEPT)


def limit_calls(job: Job, row: RunRow | NewRun, store: Any) -> None:
    """Let the calls of a job keep to the budgets of its run, also where a worker executes only a chunk of the run."""
    limits = limits_of(row)
    if not limits:
        return
    wrap = getattr(job.caller, "wrap", None)
    if wrap is not None:  # it answers from a record, which uses nothing
        wrap(lambda caller: BudgetedCaller(caller, store, limits))
    else:
        job.caller = BudgetedCaller(job.caller, store, limits)


async def end(row: RunRow | NewRun, store: Any, seconds: float) -> None:
    """Settle the seconds of a run that has ended."""
    if limits_of(row):
        await run_sync_in_thread(store, lambda: store.settle(_time_key(row.id), {"seconds": seconds}))


def _time_key(run_id: str) -> str:
    return f"{run_id} time"


class BudgetedCaller:
    """Reserves every call of a run in its accounts, and refuses calls over a limit."""

    def __init__(self, caller: Any, store: Any, limits: Limits) -> None:
        self._caller, self._store, self._limits = caller, store, limits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._caller, name)  # `version`, and what callers of directories have

    def bind(self, tool_id: str) -> Any:
        """Return a bound tool whose calls are reserved; built-in tools other than the model count for nothing."""
        bound = self._caller.bind(tool_id)
        if tool_id.startswith("ropewalk:") and tool_id != MODEL:
            return bound
        inner, store, limits = bound.call, self._store, self._limits

        async def call(args: Any, key: str | None = None, *more: Any, **named: Any) -> Json:
            own = key or uuid.uuid4().hex
            exhausted = await run_sync_in_thread(store, lambda: store.reserve(own, limits))
            if exhausted is not None:
                raise budget_exceeded(tool_id, exhausted)
            amounts: dict[str, float] = {}
            try:
                value: Json = await inner(args, key, *more, **named)
                amounts = _usage(value) if tool_id == MODEL else {}
            except Exception:
                await run_sync_in_thread(store, lambda: store.settle(own, amounts))
                raise
            # A call that is cancelled keeps its reservation: it is repeated under the same key, and counts once.
            await run_sync_in_thread(store, lambda: store.settle(own, amounts))
            return value

        return replace(bound, call=call, direct=None)


def _usage(turn: Any) -> dict[str, float]:
    """Return what a turn of a model has used."""
    if not isinstance(turn, Mapping):
        return {}
    cost = turn.get("cost")
    tokens = sum((turn.get("usage") or {}).values())
    return {"tokens": tokens, "cost": cost or 0.0, "unpriced": int(cost is None)}


def budget_exceeded(tool_id: str, exhausted: Exhausted) -> BudgetExceeded:
    """Return the error of a call that a limit refuses."""
    amount, limit = exhausted.amount, exhausted.limit
    reason = f"the budget of {_amount(amount, limit)} is used up"
    if amount == "cost" and exhausted.used < limit:
        reason = "the price of a model is not known; limit tokens instead of cost"
    return BudgetExceeded(tool_id, reason, exhausted.account, amount, limit, exhausted.used)


def _amount(name: str, limit: float) -> str:
    if name == "cost":
        return f"{limit:,.10g} US dollars"
    return f"{limit:,.10g} {name[:-1] if limit == 1 else name}"
