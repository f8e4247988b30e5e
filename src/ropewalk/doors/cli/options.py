"""Options that several commands share."""

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
        help="Where runs are kept: memory, a file, sqlite:///path, postgresql://... (default: as configured).",
    ),
]
Engine: TypeAlias = Annotated[
    Literal["local", "dbos"] | None,
    Parameter(name="--engine", help="Who executes: local, this process; dbos, workers (default: as configured)."),
]
Queue: TypeAlias = Annotated[
    str | None, Parameter(name="--queue", help="The queue that the run waits for a worker in (--engine dbos).")
]
Project: TypeAlias = Annotated[
    Path | None,
    Parameter(
        name=["--project", "-C"],
        help="The directory whose ropewalk.toml holds (default: found upward from the definition, else from here).",
    ),
]
Watch: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--watch", negative=(), help="Print every event as it happens; with --json as JSON, before the result."
    ),
]
Log: TypeAlias = Annotated[
    Literal["text", "json"],
    Parameter(
        name="--log",
        help="What is logged on standard error: plain lines, or JSON lines that also tell what happens in runs.",
    ),
]
LogLevel: TypeAlias = Annotated[
    Literal["debug", "info", "warning", "error"] | None,
    Parameter(
        name="--log-level",
        help="From which level on (default: ROPEWALK_LOG_LEVEL, else info for JSON lines and warning for plain ones).",
    ),
]
Input: TypeAlias = Annotated[
    str | None,
    Parameter(
        name=["--input", "--args", "-i"],
        allow_leading_hyphen=True,
        help="JSON, or @FILE (JSON or YAML; @- reads standard input).",
    ),
]
Upgrade: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--upgrade",
        negative=(),
        help="Go on under the changed definition; without it, what differs is only shown.",
    ),
]
