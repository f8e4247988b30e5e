"""Options that several commands share: one name, one meaning and one help text each.

To add one, write an `Annotated` alias here; a command takes it as a keyword parameter of that name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from cyclopts import Parameter

Json: TypeAlias = Annotated[
    bool, Parameter(name="--json", negative=(), help="Print one JSON object on standard output.")
]
StoreAddress: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--store",
        help="Store of the runs: memory, a file, sqlite:///PATH or postgresql://URL (default: the configured one).",
    ),
]
Engine: TypeAlias = Annotated[
    Literal["local", "dbos"] | None,
    Parameter(
        name="--engine",
        help="Where runs execute: local (this process) or dbos (workers) (default: the configured one).",
    ),
]
Queue: TypeAlias = Annotated[str | None, Parameter(name="--queue", help="Queue for the run (with --engine dbos).")]
Project: TypeAlias = Annotated[
    Path | None,
    Parameter(
        name=["--project", "-C"],
        help="Project directory (default: the nearest parent of the definition, or of the working directory, that"
        " contains ropewalk.toml).",
    ),
]
Definition: TypeAlias = Annotated[
    Path, Parameter(help="Definition: a YAML or JSON file, FILE.py:NAME, or a directory with an experience.yaml.")
]
Changed: TypeAlias = Annotated[Path | None, Parameter(help="Changed definition (default: the file of the run).")]
NoCode: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--no-code",
        negative=(),
        help="Import no module of the project and start no server; say what could not be checked.",
    ),
]
Watch: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--watch", negative=(), help="Print every event as it happens; with --json one JSON object per line."
    ),
]
Log: TypeAlias = Annotated[
    Literal["text", "json"],
    Parameter(
        name="--log",
        help="Format of the log on standard error. json also logs the events of runs.",
    ),
]
LogLevel: TypeAlias = Annotated[
    Literal["debug", "info", "warning", "error"] | None,
    Parameter(
        name="--log-level",
        help="Lowest level to log (default: ROPEWALK_LOG_LEVEL; else info for json and warning for text).",
    ),
]
Input: TypeAlias = Annotated[
    str | None,
    Parameter(
        name=["--input", "--args", "-i"],
        allow_leading_hyphen=True,
        help="Input as JSON, or @FILE with JSON or YAML; @- reads standard input.",
    ),
]
Arguments: TypeAlias = Annotated[
    str,
    Parameter(
        name="NAME=VALUE",
        help="Values of the input, in addition to --input; `a.b=1` sets b in the object a. A value is read as JSON if"
        " it is valid JSON, and as text if the schema of the input wants text.",
    ),
]
Upgrade: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--upgrade",
        negative=(),
        help="Continue with the changed definition. Without it, only show the differences.",
    ),
]
