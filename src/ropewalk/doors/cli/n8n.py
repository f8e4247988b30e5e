"""`n8n build`: a workflow for n8n from a prompt.

The workflow goes to standard output or to `-o`, with a report beside it; what is not valid is never written as if it
were: it is `NAME.draft.json`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from cyclopts import Parameter

from ...engine.engine import check_run_id, new_run_id
from ...errors import CompletionFailed
from ...source import visible
from .answer import Answer
from .exits import DONE, FAILED
from .files import saved
from .given import some_words
from .interrupts import Interrupts
from .options import Json, Project, StoreAddress
from .session import needs_model, with_app

if TYPE_CHECKING:
    from ...app import App
    from ...n8n import Built


def _writable(_: object, output: Path | None) -> None:
    """Refuse, before anything is paid, what cannot be written in the end."""
    if output is None:
        return
    if not output.parent.is_dir():
        raise ValueError(f"There is no directory {output.parent}.")
    if output.is_dir():
        raise ValueError(f"It is a directory; name a file in it, such as {output / 'workflow.json'}.")


def build(
    prompt: Annotated[str, Parameter(validator=some_words, help="What the workflow is to do.")],
    /,
    *,
    output: Annotated[
        Path | None,
        Parameter(name=["--output", "-o"], validator=_writable, help="Write it here, and NAME.report.md beside it."),
    ] = None,
    no_tools: Annotated[
        bool, Parameter(name="--no-tools", negative=(), help="Give the model no tools; n8n-mcp still judges.")
    ] = False,
    model: Annotated[str | None, Parameter(help="The model (default: as configured).")] = None,
    run_id: Annotated[
        str | None, Parameter(name="--run-id", help="Go on with a build of this id; what had ended is not asked again.")
    ] = None,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Build a workflow for n8n. It needs ANTHROPIC_API_KEY and n8n-mcp (npm install n8n-mcp)."""

    async def work(app: App, interrupts: Interrupts) -> Answer:
        from ...n8n import WorkflowBuilder
        from ...n8n.report import as_json, as_text

        needs_model(app)
        more = {} if model is None else {"model": model}
        builder = WorkflowBuilder(app, tools=not no_tools, **more)
        check_run_id(run_id)
        own = run_id or new_run_id()
        _tell(f"build {own}")  # before anything can go wrong
        if (why := builder.not_installed) is not None:
            _tell(f"! {why}; without it nobody says whether the workflow is valid")
        try:
            built = await builder.build(prompt, run_id=own, on_phase=lambda name: _tell(f"· {name}"))
        except (CompletionFailed, asyncio.CancelledError) as failed:
            if getattr(failed, "completion", None) is None:  # nothing was said that would only be said again
                _tell(f"to go on from here, say the same again with --run-id {own}")
            raise
        written = orjson.dumps(built.workflow, option=orjson.OPT_INDENT_2).decode() + "\n"
        report, data = as_text(built), {"workflow": built.workflow, "report": as_json(built)}
        code = DONE if built.valid else FAILED
        if output is None:
            _tell(report)
            if not built.valid and not json:
                _tell(f"The draft is not printed; this writes it, and asks nothing again: -o FILE --run-id {own}")
            return Answer(exit=code, data=data, text=written.rstrip("\n") if built.valid else None)
        files = _write(output, built, written, report)
        paths = {kind: str(file) for kind, file in files.items()}
        return Answer(exit=code, data={**data, "files": paths}, text="\n".join(f"{k}: {v}" for k, v in paths.items()))

    # Here, whoever executes the project's runs else: workers do not have the tools of the phases.
    return with_app(work, project=project, store=store, engine="local")


def _write(output: Path, built: Built, workflow: str, report: str) -> dict[str, Path]:
    """Write a workflow or a draft, with its report; the draft of before goes where the workflow is valid now."""
    draft = output.with_suffix(".draft.json")
    files = {
        "report": output.with_suffix(".report.md"),
        "workflow" if built.valid else "draft": output if built.valid else draft,
    }
    for kind, file in files.items():
        saved(file, report if kind == "report" else workflow)
    if built.valid and _is_ours(draft, built.workflow):
        draft.unlink()
        _tell(f"{draft} is removed: the workflow is valid now")
    return files


def _is_ours(draft: Path, workflow: dict[str, Any]) -> bool:
    """Whether it is a draft that was written here, and not something else of this name."""
    try:
        found = orjson.loads(draft.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return False
    return isinstance(found, dict) and found.keys() == workflow.keys()


def _tell(text: str) -> None:
    sys.stderr.write(visible(text) + "\n")
    sys.stderr.flush()
