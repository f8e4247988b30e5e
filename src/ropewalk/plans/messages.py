"""The messages between a machine and its host, in the process or through the pipe of a child.

A program is a deterministic function from the sequence of deliveries to the sequence of requests. The host sends
`Begin`. The machine then sends requests (`Call`, `Timer`, `Question`, `Cancel`, `Printed`) and ends each turn with
`Blocked` or `Ended`. After `Blocked` the host sends `Delivery` messages; the machine takes one whenever every task is
blocked, and skips those whose step the program has cancelled. `Clock` and `SchemaRequest` are answered at once, by
`Reading` and `Schemas`, while the program computes.

Values are JSON texts, so that both places pass copies of the same form. A message knows nothing about rows, tools or
processes. The host trusts no field: `from_json` checks only that each has its type.
"""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any, Final, TypeAlias

from ..errors import InvalidValue
from ..fast_dataclass import dataclass
from ..values import Json

# --- from the host to the machine ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begin:
    """A program to run: its text, its tools (name to parameters, null if unknown), inputs as JSON, and the seed."""

    # `reads`: The tools whose neighbouring calls begin together.

    text: str
    tools: dict[str, list[str] | None]
    inputs: str
    seed: int
    function: bool = False
    reads: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Delivery:
    """The end of a step: its result as JSON, or the failure `{type, message, classes}` if `ok` is false."""

    path: str
    ok: bool
    value: str


@dataclass(frozen=True, slots=True)
class Reading:
    """The time that the clock showed, in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Schemas:
    """The schemas that were requested, by the name of the tool."""

    schemas: dict[str, Json]


# --- from the machine to the host ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool: `arguments` is a JSON object, `id` the short name that people type (`get_order-2`)."""

    path: str
    id: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Timer:
    """A `sleep` or `timeout` of some seconds."""

    # It is delivered as null when it is due.

    path: str
    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a person (`approve` with a text) or to another system (`event` with a name)."""

    # After `seconds` it is delivered as a failure; None for no limit.

    path: str
    name: str
    text: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    """The program no longer waits for a step that it requested."""

    path: str


@dataclass(frozen=True, slots=True)
class Clock:
    """The program reads a clock: `now` or `monotonic`."""

    path: str
    name: str


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """The check needs the schemas of these tools."""

    names: list[str]


@dataclass(frozen=True, slots=True)
class Printed:
    """A text that the program printed."""

    # `number` counts from 0, so that a resumed run logs each text once.

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """Every task waits: the host may deliver."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The program ended."""

    # `completed`; `failed` by an exception; `stopped` at a limit; `invalid`, with `problems`; `unexpected` if a
    # delivery was for a step that the program had not requested.
    status: str
    # The result as JSON.
    result: str = "null"
    # The class of the exception.
    error: str = ""
    message: str = ""
    # The line that raised it, from 1; 0 if there is none.
    line: int = 0
    # The paths of the failed steps that the exception comes from.
    failed: list[str] = field(default_factory=list)
    # What is wrong with the text: `{line, column, message}`.
    problems: list[dict[str, Json]] = field(default_factory=list)


Request: TypeAlias = Call | Timer | Question
"""The steps that the host performs and delivers."""
Message: TypeAlias = (
    Begin | Delivery | Reading | Schemas | Request | Cancel | Clock | SchemaRequest | Printed | Blocked | Ended
)

_TYPES: Final[dict[str, type[Any]]] = {
    kind.__name__.lower(): kind
    for kind in [
        *(Begin, Delivery, Reading, Schemas),
        *(Call, Timer, Question, Cancel, Clock, SchemaRequest, Printed, Blocked, Ended),
    ]
}
_FIELD_TYPES: Final[dict[str, tuple[type[Any], ...]]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "float": (float, int),
    "float | None": (float, int, type(None)),
    "list": (list,),
    "dict": (dict,),
}
_FIELDS: Final[dict[str, dict[str, tuple[type[Any], ...]]]] = {
    name: {part.name: _FIELD_TYPES[str(part.type).partition("[")[0]] for part in fields(kind)}
    for name, kind in _TYPES.items()
}


def short_id(tool: str, number: int) -> str:
    """Return the id that people type for the call of a tool with this number in the run, from 1."""
    return tool if number == 1 else f"{tool}-{number}"


def to_json(message: Message) -> dict[str, Json]:
    """Return a message as a JSON object, with its kind as `is`."""
    kind = type(message).__name__.lower()
    content: dict[str, Json] = {name: getattr(message, name) for name in _FIELDS[kind]}
    content["is"] = kind
    return content


def from_json(value: Json) -> Message:
    """Return the message of a JSON object."""

    # Raises InvalidValue if it is none, or a field has another type.
    name = str(value.get("is")) if isinstance(value, dict) else ""
    types = _FIELDS.get(name)
    if types is None or not isinstance(value, dict):
        raise InvalidValue("", "this is not a message of a program")
    content = {key: item for key, item in value.items() if key != "is"}
    for key, item in content.items():
        if key in types and type(item) not in types[key]:
            raise InvalidValue("", f"the field {key} of the message {name} has another type")
    try:
        message: Message = _TYPES[name](**content)
    except TypeError:
        raise InvalidValue("", f"the message {name} has other fields") from None
    return message
