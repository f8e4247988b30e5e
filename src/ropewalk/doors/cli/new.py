"""`new`: a directory with a definition that runs at once. The files are in `template/`; a kind of definition
is one of them, named `KIND.yaml`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from cyclopts import Parameter

from ...errors.given import install
from ...source.writing import create_file
from .answer import Answer
from .exits import UsageError
from .options import Json

Kind: TypeAlias = Literal["chain", "composition", "experience", "agent"]
_FILES = {"ropewalk.toml": "ropewalk.toml", "tools.py": "tools.py.txt"}
_MODULES = {"tools/greet.py": "greet.py.txt", "tools/sum_up.py": "sum_up.py.txt"}


def new(
    directory: Path,
    /,
    *,
    kind: Annotated[Kind, Parameter(help="What to begin with.")] = "chain",
    json: Json = False,
) -> Answer:
    """Make DIRECTORY with tools in Python and a definition that runs at once."""
    if _taken(directory):
        raise UsageError(f"{directory} is there already, and not empty; name a new directory")
    definition = f"{kind}.yaml"
    try:
        made = _make(directory, {**(_MODULES if kind == "experience" else _FILES), definition: definition})
    except OSError as error:
        raise UsageError(f"{error.filename or directory} cannot be written: {error.strerror or error}") from error
    run = f"cd {shlex.quote(str(directory))} && ropewalk run {'.' if kind == 'experience' else definition}"
    first = [f"first: {install('claude')}", "       export ANTHROPIC_API_KEY=..."] if kind == "agent" else []
    return Answer(
        data={"directory": str(directory), "files": made, "next": run},
        text="\n".join([*made, "", *first, f"now: {run}"]),
    )


def _taken(directory: Path) -> bool:
    try:
        return directory.exists() and (not directory.is_dir() or any(directory.iterdir()))
    except OSError as error:
        raise UsageError(f"{directory} cannot be read: {error.strerror or error}") from error


def _make(directory: Path, names: Mapping[str, str]) -> list[str]:
    """Write every file of the template under its name; returns their paths."""
    template = files(__package__).joinpath("template")
    made = []
    directory.mkdir(parents=True, exist_ok=True)
    for name, kept in names.items():
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        create_file(path, template.joinpath(kept).read_bytes())
        made.append(str(path))
    return made
