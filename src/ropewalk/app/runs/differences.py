"""The error of a run whose definition has changed, with every difference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import Action, DefinitionChanged, Problem, Remedy, display_path
from ...journal.protocol import ENDS, RunRow
from ..recorded_run import require_run
from .compare import Change, flow_changes

if TYPE_CHECKING:
    from ..context import Context
    from ..prepared import Prepared


def with_differences(
    context: Context, error: DefinitionChanged, run_id: str | None, loaded: Prepared
) -> DefinitionChanged:
    """Return the error with the differences between the recorded definition of the run and the new one."""
    if error.run_id != run_id:
        return error  # the changed definition is that of a flow which the run calls as a tool
    row = require_run(context.store, run_id)
    return definition_changed(row, flow_changes(context.definitions.get(row).flow, loaded.flow), loaded)


def definition_changed(row: RunRow, changes_made: list[Change], loaded: Prepared) -> DefinitionChanged:
    """Make the error that lists every difference, with its place in the newer file."""
    error = DefinitionChanged(row.id, [_upgrade_error(item, loaded) for item in changes_made])
    error.remedy = upgrade_remedy(row, loaded.read_from)
    return error


def upgrade_remedy(row: RunRow, file: str | None = None) -> Remedy:
    """Return the remedy that uses a changed definition for a run."""
    action = Action.FORK_CHANGED if row.status == "completed" else Action.RETRY_CHANGED
    if row.status not in ENDS:
        action = Action.UPGRADE
    return Remedy(action, {"run_id": row.id, "file": shown_file(file)})


def shown_file(file: str | None) -> str:
    """Return the file of a definition for a command; a definition of no file needs one."""
    return "FILE" if file is None else display_path(Path(file))


def _upgrade_error(change: Change, loaded: Prepared) -> Problem:
    file: Any = loaded.file
    place = file.locate(change.source) if file is not None and change.source and change.kind != "removed" else None
    message = {"added": "is new", "removed": "is gone"}.get(change.kind, f"changed in {', '.join(change.fields)}")
    return Problem(path=change.place or "the definition", message=message, place=place)
