"""The budget in documents: the limits of each run of the definition, with its parts and corrections."""

from __future__ import annotations

from collections.abc import Mapping

from ..duration import read_duration
from ..journal.ledger import limit_problem
from ..values import Json
from .fields import Report, add_problem, join, type_name


def check_budget(value: Json, path: str, report: Report) -> Json:
    """Report a budget of a wrong form; return its limits."""
    if not isinstance(value, Mapping):
        add_problem(report, path, f"must be an object of limits, not {type_name(value)}")
        return {}
    limits = {
        str(name): read_duration(limit) if name == "seconds" else limit
        for name, limit in value.items()
        if limit is not None
    }
    for name, limit in limits.items():
        if message := limit_problem(name, limit):
            add_problem(report, join(path, name), message)
    return limits
