"""`tools stats`: what past runs say of tools."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from .answer import Answer
from .interrupts import Interrupts
from .options import Json, Project, StoreAddress
from .session import with_app
from .table import columns, duration, first_line

if TYPE_CHECKING:
    from ...app import App


def stats(
    *,
    days: Annotated[
        float | None, Parameter(validator=validators.Number(gt=0), help="Only runs of the last so many days.")
    ] = None,
    runs: Annotated[
        int, Parameter(validator=validators.Number(gte=1), help="At most so many runs, the newest.")
    ] = 1000,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Show for each tool how often past runs called it, how often it failed and how long it took."""

    async def work(app: App, _: Interrupts) -> Answer:
        from ...runs.tool_stats import tool_stats

        found: dict[str, object] = tool_stats(
            app, since=None if days is None else time.time() - days * 86400, limit=runs
        )
        rows = [
            (
                one["tool"],
                one["calls"],
                one["failed"],
                duration(one["p50Ms"] / 1000),
                duration(one["p95Ms"] / 1000),
                f"{one['tokens']:,}" if one["tokens"] else "-",
                first_line(one["lastError"] or ""),
            )
            for one in found["tools"]  # type: ignore[attr-defined]
        ]
        head = ("TOOL", "CALLS", "FAILED", "P50", "P95", "TOKENS", "LAST ERROR")
        lines = [columns(head, rows) if rows else "no run has called a tool"]
        if found["unread"]:
            lines.append(f"{found['unread']} runs are left out: their definitions cannot be read any more")
        return Answer(data=found, text="\n".join(lines))

    return with_app(work, project=project, store=store, tools=False)
