"""`validate`, `plan`, `graph`, `convert`: what a definition is, without running it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from ...check import UNKNOWN_TOOL
from ...config.project import FILE
from ...errors import InvalidFlow
from ...source import dump, render
from ...told import problem_data
from .answer import Answer
from .exits import UsageError
from .files import saved
from .interrupts import Interrupts
from .options import Json, Project
from .session import with_app

if TYPE_CHECKING:
    from ...app import App


def validate(
    source: Path,
    /,
    *,
    strict: Annotated[bool, Parameter(negative=(), help="Take warnings for problems.")] = False,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Check a definition: every problem at once, each with its place. No tool is called."""
    if source.name == FILE:
        raise UsageError(f"{source} is a project's file, not a definition; `ropewalk doctor` checks it")

    async def work(app: App, _: Interrupts) -> Answer:
        checked = await app.validate(source)
        warnings = list(checked.warnings)
        if checked.problems or (strict and warnings):
            error = InvalidFlow([*checked.problems, *(warnings if strict else ())])
            error.warnings = () if strict else checked.warnings
            raise error
        missing = [w for w in warnings if w.keyword == UNKNOWN_TOOL]
        few = "a tool is" if len(missing) == 1 else f"{len(missing)} tools are"
        but = f", but it cannot run while {few} not there" if missing else ""
        text = [f"warning: {render(w)}" for w in warnings] + [f"{source}: valid{but}"]
        data = {"valid": True, "problems": [], "warnings": [problem_data(w) for w in warnings]}
        return Answer(data=data, text="\n".join(text))

    return with_app(work, near=source, project=project, store="memory")


def plan(source: Path, /, *, json: Json = False, project: Project = None) -> Answer:
    """Show what would run, in which order, with which tools and checked types. Nothing is called."""

    async def work(app: App, _: Interrupts) -> Answer:
        planned = await app.plan(source)
        return Answer(data=planned.to_dict(), text=planned.text())

    return with_app(work, near=source, project=project, store="memory")


def graph(
    source: Path,
    /,
    *,
    format: Annotated[Literal["mermaid", "svg", "text"], Parameter(name=["--format", "-f"])] = "text",
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="Write to this file.")] = None,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Draw a definition."""

    async def work(app: App, _: Interrupts) -> Answer:
        drawn = app.draw(source, format)
        if output is None:
            return Answer(data={"format": format, "graph": drawn}, text=drawn)
        said = saved(output, drawn if drawn.endswith("\n") else drawn + "\n")
        return Answer(data={"format": format, "file": str(output)}, text=said)

    return with_app(work, near=source, project=project, store="memory")


def convert(
    source: Path,
    /,
    *,
    to: Annotated[str, Parameter(name="--to", help="The notation: chain, flow, ...")],
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="Write to this file.")] = None,
    allow_loss: Annotated[
        bool, Parameter(negative=(), help="Convert what the notation can hold, and list on stderr what is lost.")
    ] = False,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Write a definition in another notation, or list everything that it cannot hold."""

    async def work(app: App, _: Interrupts) -> Answer:
        made = app.convert(source, to, allow_loss=allow_loss)
        document = dict(made)
        text = dump(document, "json" if output is not None and output.suffix == ".json" else "yaml")
        losses = made.losses if allow_loss else ()
        for loss in losses:
            sys.stderr.write(f"lost: {render(loss)}\n")
        lost: dict[str, Any] = {"losses": [problem_data(loss) for loss in losses]} if allow_loss else {}
        if output is None:
            return Answer(data={"document": document, **lost} if allow_loss else document, text=text)
        return Answer(data={"kind": to, "file": str(output), **lost}, text=saved(output, text))

    return with_app(work, near=source, project=project, store="memory")
