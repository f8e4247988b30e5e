"""`resume --all`: continue every run of the project that nobody executes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ...runs.recovery import resume_all as resume_every
from .answer import Answer
from .exits import FAILED
from .interrupts import Interrupts
from .logs import Form, Level
from .session import with_app
from .table import columns

if TYPE_CHECKING:
    from ...app import App


def resume_all(
    *,
    project: Path | None,
    store: str | None,
    engine: Literal["local", "dbos"] | None,
    log: Form,
    log_level: Level | None,
) -> Answer:
    """Resume them and list how each one ended; exit code 1 when one failed or could not be resumed."""

    async def work(app: App, _: Interrupts) -> Answer:
        outcomes = await resume_every(app)
        rows = [(outcome.run_id, outcome["status"], outcome.get("error") or "") for outcome in outcomes]
        failed = any(outcome["status"] not in ("completed", "partial", "waiting") for outcome in outcomes)
        return Answer(
            exit=FAILED if failed else 0,
            data=[outcome.to_dict() for outcome in outcomes],
            text=columns(("ID", "STATUS", "ERROR"), rows) if rows else "no run to resume",
        )

    return with_app(work, project=project, store=store, engine=engine, log=log, log_level=log_level)
