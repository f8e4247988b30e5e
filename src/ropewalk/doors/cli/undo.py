"""`runs undo`: undo the finished steps of a run, and the text of what is undone of it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ...events import Event
from ...source.document import escape_invisible
from .dispatch import DONE, FAILED, Answer
from .options import Engine, Json, Project, StoreAddress, Watch
from .progress import choose_display
from .session import Interrupts, store_options, with_app

if TYPE_CHECKING:
    from ...app.app import App

_MOST: Final = 100  # steps of each kind that are listed
_CALL: Final = re.compile(r"undo\[(\d+)\]/step\[\d+\]/")  # the path of a call in the run that undoes


def undo(
    run_id: str,
    /,
    *,
    json: Json = False,
    store: StoreAddress = None,
    watch: Watch = False,
    engine: Engine = None,
    project: Project = None,
) -> Answer:
    """Undo the finished steps of a run that has ended, in reverse order of completion.

    Each step whose tool has an undo is undone once. If an undo fails, run the command again: it continues there.
    """

    async def work(app: App, interrupts: Interrupts) -> Answer:
        display = choose_display(json, watch)
        names = UndoNames(app)

        def on_event(event: Event) -> None:
            if "/" not in event.run_id:  # a part is stopped and resumed with its run
                interrupts.running(event.run_id)
            if (named := event if json else names.of(event)) is not None:
                display.take(named)

        with display:
            report = await app.runs.undo(run_id, on_event=on_event)
        options = store_options(store, project)
        text = escape_invisible("\n".join(undo_lines(report, run_id, options)))
        return Answer(exit=DONE if report["status"] == "undone" else FAILED, data=report, text=text)

    return with_app(work, run=run_id, project=project, store=store, engine=engine)


class UndoNames:
    """Names the calls of an undo by their tools and the steps that they undo, in place of their inner nodes."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._steps: dict[str, list[dict[str, Any]]] = {}

    def of(self, event: Event) -> Event | None:
        """Return an event as it is shown to people."""
        if not event.path or not self._steps_of(event.run_id):
            return event
        call = _CALL.match(event.path)
        if call is None:
            return None
        step = self._steps[event.run_id][int(call[1])]
        return replace(event, path=f"undo of {step['path']} with {step['tool']}")

    def _steps_of(self, run_id: str) -> list[dict[str, Any]]:
        """Return the steps that a run undoes; none if the run is not an undo."""
        if run_id not in self._steps:
            row = self._app.runs.row(run_id) if "~undo" in run_id else None
            started_with: Any = row.input if row is not None and "undoes" in (row.context or {}) else {}
            self._steps[run_id] = started_with.get("steps", [])
        return self._steps[run_id]


def undo_lines(report: dict[str, Any], run_id: str, options: str) -> Iterator[str]:
    """Yield the lines about the undo of a run."""
    undone, left = report["undone"], report["left"]
    count = len(undone) + len(left)
    if report["status"] != "none":
        yield f"{report['status']}: {len(undone)} of {count} step{'s' * (count != 1)} of {run_id}"
    if (rejected := report.get("rejected")) is not None:
        by = f" by {rejected['by']}" if rejected.get("by") else ""
        note = f": {rejected['note']}" if rejected.get("note") else ""
        yield f"the undo was rejected{by}{note}"
    yield from _listed(f"  ↶ {step['path']}  {step['tool']}" for step in undone)
    yield from _listed(f"  - {step['path']}  {step['tool']}{_why(step)}" for step in left)
    if not_undoable := report.get("notUndoable"):
        yield "not undoable:" if report["status"] != "none" else "undone with another run:"
        yield from _listed(f"  - {step['path']}  {step['tool']}: {step['reason']}" for step in not_undoable)
    if report["status"] in ("incomplete", "due"):
        goal = "continue" if rejected is None else "undo it all the same"
        yield f"to {goal}: ropewalk runs undo {shlex.quote(run_id)}{options}"


def _why(step: dict[str, Any]) -> str:
    return f": {step['error']}" if step.get("error") else ""


def _listed(lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number == _MOST:
            yield "  … more; --json has all"
            return
        yield line
