"""Which runs a list takes in: the meaning of the filters that every store follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .journal import RunRow


def matches(row: RunRow, filters: Mapping[str, Any], error_text: str) -> bool:
    """Whether a row passes the filters of `list_runs`; the meaning every store follows."""
    text, flow, status = filters.get("text"), filters.get("flow"), filters.get("status")
    since, until = filters.get("since"), filters.get("until")
    return (
        all(filters.get(name) in (None, getattr(row, name)) for name in ("kind", "definition_id", "parent"))
        and (not status or row.status in statuses(status))
        and (flow is None or flow in (row.name, row.definition_id))
        and (until is None or row.started_at < until)
        and not (filters.get("top") and row.parent is not None)
        and (since is None or row.started_at >= since)
        and (not text or contains(text, row.id, row.name, row.definition_id, error_text))
    )


def statuses(given: str | Sequence[str]) -> list[str]:
    """One status or several, as a list."""
    return [given] if isinstance(given, str) else list(given)


def contains(text: str, *fields: str | None) -> bool:
    """Whether any field holds `text`, whatever the case."""
    wanted = text.casefold()
    return any(field is not None and wanted in field.casefold() for field in fields)
