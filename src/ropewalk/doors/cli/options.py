"""Options that several commands share: one name, one meaning and one help text each.

To add one, write an `Annotated` alias here; a command takes it as a keyword parameter of that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter

from ...duration import EXAMPLES, read_duration

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
Queue: TypeAlias = Annotated[
    str | None, Parameter(name="--queue", help="Queue for the run; a worker or a server takes it.")
]
Project: TypeAlias = Annotated[
    Path | None,
    Parameter(
        name=["--project", "-C"],
        help="Project directory (default: the nearest parent of the definition, or of the working directory, that"
        " contains ropewalk.toml).",
    ),
]
Host: TypeAlias = Annotated[
    str,
    Parameter(
        name="--host", help="Address to listen on. Addresses other than loopback are reachable from the network."
    ),
]
Port: TypeAlias = Annotated[int, Parameter(name="--port", help="Port; 0 picks a free one.")]
AllowHost: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(
        name="--allow-host",
        negative=(),
        help="Additional host name under which clients reach this server; repeatable.",
    ),
]
RootPath: TypeAlias = Annotated[
    str,
    Parameter(
        name="--root-path",
        help="Path under which a proxy serves this server, such as /ropewalk, whether it strips it or not.",
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


class OptionText(str):
    """The value of an option, with the name that the command line gave the option."""

    option = ""


def _with_name(_: type, tokens: Sequence[Any]) -> OptionText:
    text = OptionText(tokens[0].value)
    text.option = tokens[0].keyword
    return text


Input: TypeAlias = Annotated[
    str | None,
    Parameter(
        name=["--input", "--args", "-i"],
        converter=_with_name,
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


def read_seconds(_: type, tokens: Sequence[Any]) -> float:
    """Read the value of an option: a number of seconds, or a duration."""
    try:
        return float(read_duration(tokens[0].value))
    except ValueError:
        raise ValueError(f"It must be a number of seconds, or {EXAMPLES}.") from None


Upgrade: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--upgrade",
        negative=(),
        help="Continue with the changed definition. Without it, only show the differences.",
    ),
]
