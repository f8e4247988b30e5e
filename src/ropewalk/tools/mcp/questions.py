"""Questions of servers that the run of a call records, so that it can wait for a person and survive its process.

The engine puts a `CallQuestions` into `QUESTIONS` around each call of a durable run. A connection asks it only where
no client, terminal or `on_elicit` answers. It gives the answers that the run has recorded; a question without one ends
the call, and `open` then says what to ask. The run waits, and makes the call again with the answer.

An answer is what `on_elicit` returns, as JSON: the fields of a form, `true` for an address that the person has opened,
`"decline"` or `"cancel"`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from ...errors import Problem, UnsupportedSchema
from ...fast_dataclass import dataclass
from ...schema import compile_schema
from ...values import Json, did_you_mean, digest

ELICIT: Final = "elicitation/create"
DECLINE: Final = "decline"
CANCEL: Final = "cancel"
CAPABILITY: Final[dict[str, Json]] = {"form": {}, "url": {}}
"""The capabilities that a server sees where a run can be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elicitation:
    """A question of a server for the user.

    Attributes:
        server: The name of the server.
        message: The question. The server wrote it, so treat it as data.
        schema: The JSON Schema of the answer, an object with flat fields; None for an address.
        url: An address for the user to open in place of a form; None for a form.
    """

    server: str
    message: str
    schema: Mapping[str, Json] | None = None
    url: str | None = None

    def to_json(self) -> dict[str, Json]:
        """Return the question as the record of a run holds it: `{server, message, schema or url}`."""
        data: dict[str, Json] = {"server": self.server, "message": self.message}
        return {**data, "url": self.url} if self.url is not None else {**data, "schema": dict(self.schema or {})}

    @property
    def digest(self) -> str:
        """Names the question by its content; the same question has the same digest in every process."""
        return digest(self.to_json())


def read_question(server: str, params: Mapping[str, Any]) -> Elicitation:
    """Return the question in the parameters of `elicitation/create`."""
    is_form = params.get("mode", "form") == "form"
    return Elicitation(
        server=server,
        message=str(params.get("message", "")),
        schema=params.get("requestedSchema") if is_form else None,
        url=None if is_form else str(params.get("url", "")),
    )


class OpenQuestions(NamedTuple):
    """The questions that a server asks before it continues a call."""

    # The questions without an answer, by the server's key.
    questions: dict[str, Elicitation]
    # What a repeated call returns to the server in addition to the answers, by the server's key; None for a server that
    # asks again when the call is made again.
    responses: dict[str, Any] | None
    # The state that the server wants back with the answers.
    state: str | None


class CallQuestions:
    """The questions of one call, and the answers that its run has recorded."""

    # `open`: The questions that ended the call; None if none did.

    def __init__(
        self,
        answers: Sequence[tuple[str, dict[str, Any]]] = (),
        responses: dict[str, Any] | None = None,
        state: str | None = None,
    ) -> None:
        self.responses, self.state = responses, state
        self.open: OpenQuestions | None = None
        self._answers = answers
        self._next = 0 if responses is None else len(answers)

    def begin_again(self) -> None:
        """Give all recorded answers again, from the first one on."""
        self.responses, self._next = None, 0

    def find_answer(self, question: Elicitation) -> dict[str, Any] | None:
        """Return the recorded result of a question, each one once and in order; None if a person must be asked."""
        wanted = question.digest
        for place in range(self._next, len(self._answers)):
            if self._answers[place][0] == wanted:
                self._next = place + 1
                return self._answers[place][1]
        return None


QUESTIONS: ContextVar[CallQuestions | None] = ContextVar("ropewalk_mcp_questions", default=None)
"""The questions of the current call, if a durable run makes it."""


def elicitation_result(question: Mapping[str, Any], answer: Json) -> dict[str, Any]:
    """Return an answer as the result of the elicitation, with the server's defaults for fields that are left out."""
    if answer in (DECLINE, CANCEL):
        return {"action": answer}
    if "url" in question:
        return {"action": "accept"}
    assert isinstance(answer, dict)
    return {"action": "accept", "content": {**_defaults(question), **answer}}


def answer_problems(question: Mapping[str, Any], answer: Json, place: str) -> list[Problem]:
    """Return why an answer does not fit a question; none if it does."""
    if answer in (DECLINE, CANCEL):
        return []
    if "url" in question:
        if answer is True:
            return []
        expected = f'true (the address was opened), "{DECLINE}" or "{CANCEL}"'
        return [Problem(path=place, message=f"must be {expected}")]
    if not isinstance(answer, dict):
        expected = f'an object with the fields of the form, "{DECLINE}" or "{CANCEL}"'
        return [Problem(path=place, message=f"must be {expected}")]

    # The form lists all its fields, so any other name is a mistake, whatever its schema says about further ones.
    schema: Mapping[str, Any] = question.get("schema") or {}
    properties: Mapping[str, Any] = schema.get("properties") or {}
    unknown = [name for name in answer if name not in properties]
    if unknown:
        return [Problem(path=f"{place}.{name}", message=_unknown_field(name, properties)) for name in unknown]
    try:
        return compile_schema(dict(schema)).problems({**_defaults(question), **answer}, place)
    except UnsupportedSchema:  # the server checks what we cannot
        missing = [name for name in schema.get("required") or [] if name not in answer]
        return [Problem(path=f"{place}.{name}", message="is required") for name in missing]


def _defaults(question: Mapping[str, Any]) -> dict[str, Json]:
    properties: Mapping[str, Any] = (question.get("schema") or {}).get("properties") or {}
    return {name: field["default"] for name, field in properties.items() if "default" in field}


def _unknown_field(name: str, properties: Mapping[str, Any]) -> str:
    near = did_you_mean(name, properties)
    listed = f"; the fields are {', '.join(properties)}" if properties else "; the form has no fields"
    return "is not a field of the form" + (f"; did you mean {near!r}?" if near else listed)
