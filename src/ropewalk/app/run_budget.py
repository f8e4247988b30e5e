"""The budget of a run as a client gives it: calls of tools, seconds, tokens of models, and their cost in US dollars."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ..config.settings import BudgetSettings
from ..engine.budgets import limits_of
from ..errors import InvalidInput, Problem
from ..journal.ledger import Limits
from ..journal.protocol import RunRow
from ..values import Json

if TYPE_CHECKING:
    from ..engine.engine import Job

_MOST: Final = {"calls": 2**53, "tokens": 2**53, "seconds": 10 * 365 * 86_400, "cost": 1e12}
"""The largest limit of each amount: ten years, and numbers that every store holds exactly."""
_OF_A_DAY: Final = re.compile(r"^(project|definition .*) \d{4}-\d\d-\d\d$", re.DOTALL)


def read_budget(budget: Mapping[str, Json] | None, place: str = "budget") -> dict[str, float]:
    """Return the limits of a budget; raise InvalidInput with every problem of it."""
    if budget is not None and not isinstance(budget, Mapping):
        raise InvalidInput([Problem(path=place, message="must be an object of limits")])
    limits = {name: value for name, value in (budget or {}).items() if value is not None}
    problems = [
        Problem(path=f"{place}.{name}", message=message)
        for name, value in limits.items()
        if (message := _problem(name, value))
    ]
    if problems:
        raise InvalidInput(problems)
    return limits


def _problem(name: str, value: Json) -> str:
    """Return what is wrong with a limit; "" for a valid one."""
    if name not in _MOST:
        return "must be calls, seconds, tokens or cost"
    # In Python, bool is a subclass of int; True is no limit.
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and -math.inf < value < math.inf
    whole = name in ("calls", "tokens")
    least_ok = is_number and (value > 0 if name == "seconds" else value >= 0)
    if not least_ok or (whole and not isinstance(value, int)):
        kind = "an integer of 0 or more" if whole else "a number above 0" if name == "seconds" else "a number from 0"
        return f"must be {kind}{', in US dollars' if name == 'cost' else ''}"
    return "" if value <= _MOST[name] else f"must be at most {_MOST[name]:,.10g}"


def project_accounts(settings: BudgetSettings, job: Job, is_part: bool) -> Limits:
    """Return the accounts of a new run that the project sets: its own, except for parts, and that of the definition."""
    new, accounts = job.new, {}
    if settings.per == "day":
        when = datetime.now(UTC).date().isoformat()
    else:
        when = f"run:{job.chain or new.id}"
    limits = {name: limit for name in _MOST if (limit := getattr(settings, name)) is not None}
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
