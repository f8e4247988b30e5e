"""The budget of a run as a client gives it: calls of tools, seconds, tokens of models, and their cost in US dollars."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ..config.settings import BudgetSettings
from ..duration import read_duration
from ..engine.budgets import limits_of
from ..errors import InvalidInput, Problem
from ..journal.ledger import MAX_LIMITS, Limits, limit_problem
from ..journal.protocol import RunRow
from ..values import Json

if TYPE_CHECKING:
    from ..engine.engine import Job

_OF_A_DAY: Final = re.compile(r"^(project|definition .*) \d{4}-\d\d-\d\d$", re.DOTALL)


def read_budget(budget: Mapping[str, Json] | None, place: str = "budget") -> dict[str, float]:
    """Return the limits of a budget; raise InvalidInput with every problem of it."""
    if budget is not None and not isinstance(budget, Mapping):
        raise InvalidInput([Problem(path=place, message="must be an object of limits")])
    limits: dict[str, Any] = {name: value for name, value in (budget or {}).items() if value is not None}
    if "seconds" in limits:
        limits["seconds"] = read_duration(limits["seconds"])
    problems = [
        Problem(path=f"{place}.{name}", message=message)
        for name, value in limits.items()
        if (message := limit_problem(name, value))
    ]
    if problems:
        raise InvalidInput(problems)
    return limits


def project_accounts(settings: BudgetSettings, job: Job, is_part: bool) -> Limits:
    """Return the accounts of a new run that the project sets: its own, except for parts, and that of the definition."""
    new, accounts = job.new, dict[str, Mapping[str, float]]()
    limits = {name: limit for name in MAX_LIMITS if (limit := getattr(settings, name)) is not None}
    if not limits and not settings.definitions:
        return accounts
    when = datetime.now(UTC).date().isoformat() if settings.per == "day" else f"run:{job.chain or new.id}"
    if limits and not is_part:
        accounts[f"project {when}"] = limits
    for name in dict.fromkeys((new.definition_id, new.name)):
        if name is not None and name in settings.definitions:
            accounts[f"definition {name} {when}"] = dict(settings.definitions[name])
            break
    return accounts


def accounts_of_correction(row: RunRow) -> Limits:
    """Return the accounts that a correction of a run counts for, whatever its name is; those of a day are today's."""
    today = datetime.now(UTC).date().isoformat()
    return {_OF_A_DAY.sub(rf"\g<1> {today}", account): limits for account, limits in limits_of(row).items()}


def budgets_of(store: Any, row: RunRow) -> list[dict[str, Json]]:
    """Return the budgets of a run as JSON, each with its limits and what is used of it."""
    shown: list[dict[str, Json]] = []
    for account, limits in limits_of(row).items():
        used = store.used(account)
        shown.append({"account": account, "limits": dict(limits), "used": {name: used[name] for name in limits}})
    return shown
