"""Readers of the text of a plan: this process for programs of people, a child process for programs of models.

The document says where its text comes from (`origin`), so a recorded run, a saved plan and a correction are read by the
same reader again. Both readers answer the same questions.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from ...errors import InvalidFlow, Problem
from ...outline import from_json
from ...plans.boundary.pool import Conversation, Limits, ProgramStopped, pool
from ...values import Json, digest
from ..registry import NOTATIONS, Compiled

if TYPE_CHECKING:
    from ..project import Project
    from .check import PlanTypes

ORIGIN: Final = "origin"
MODEL: Final = "model"
"""The origin of a program that a model wrote, or that came over HTTP or MCP."""
_MOST_KNOWN: Final = 256
_STOPPED_SECONDS: Final = 20.0
"""How long a question whose program was stopped is not asked again."""


class PlanReader(Protocol):
    """Answers questions about the text of a plan."""

    def names(self, code: str) -> set[str]:
        """Return the names in a program that can mean tools."""
        ...

    def values(self, code: str) -> set[str]:
        """Return the places of recorded values that a program reads."""
        ...

    def compile(self, document: Mapping[str, Any]) -> Compiled:
        """Compile a document."""
        ...

    def types(self, document: Mapping[str, Any], cards: Any) -> PlanTypes:
        """Return the types of a program."""
        ...


class ReaderHere:
    """Reads programs of people, in this process."""

    def names(self, code: str) -> set[str]:
        from ...plans.read.tools import names_in

        return names_in(code)

    def values(self, code: str) -> set[str]:
        from ...plans.read.tools import values_in

        return values_in(code)

    def compile(self, document: Mapping[str, Any]) -> Compiled:
        return NOTATIONS["plan"].compile(document)

    def types(self, document: Mapping[str, Any], cards: Any) -> PlanTypes:
        from .check import types_of

        return types_of(document, cards)


class ReaderElsewhere:
    """Reads programs of models, in children."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Any, float]] = {}

    def names(self, code: str) -> set[str]:
        return set(self._names(code)["names"])

    def values(self, code: str) -> set[str]:
        return set(self._names(code)["values"])

    def _names(self, code: str) -> Any:
        answer = self._ask({"service": "names", "code": code})
        return {"names": [], "values": []} if isinstance(answer, ProgramStopped) else answer

    def compile(self, document: Mapping[str, Any]) -> Compiled:
        return compiled_from(document, self._ask(_question("compile", document)))

    def types(self, document: Mapping[str, Any], cards: Any) -> PlanTypes:
        from .check import PlanTypes

        answer = self._ask(_question("types", document), cards)
        if isinstance(answer, ProgramStopped):
            return PlanTypes([_stopped(answer)])
        wrong, doubtful, output = answer
        return PlanTypes(list(map(_problem, wrong)), list(map(_problem, doubtful)), output)

    async def prepare_names(self, code: str) -> None:
        """Ask for the names in a program without blocking the event loop; `names` and `values` know them then."""
        await self._ask_async({"service": "names", "code": code})

    async def prepare(self, document: Mapping[str, Any], cards: Any) -> None:
        """Ask everything about a document that names its tools without blocking the event loop."""
        await self._ask_async(_question("compile", document))
        await self._ask_async(_question("types", document), cards)

    # --- questions -----------------------------------------------------------------------------

    def _ask(self, message: dict[str, Json], cards: Any = None) -> Any:
        key = _key(message, cards)
        known, answer = self._look_up(key)
        if not known:
            try:
                with pool().lease_sync() as child:
                    answer = judged(message, child.converse_sync(_conversation(message, cards)))
            except ProgramStopped as error:
                answer = error
            self._keep(key, answer)
        return answer

    async def _ask_async(self, message: dict[str, Json], cards: Any = None) -> None:
        key = _key(message, cards)
        if self._look_up(key)[0]:
            return
        try:
            async with pool().lease() as child:
                answer: Any = judged(message, await child.converse(_conversation(message, cards)))
        except ProgramStopped as error:
            answer = error
        self._keep(key, answer)

    def _look_up(self, key: str) -> tuple[bool, Any]:
        """Return whether the answer to a question is known, and the answer."""
        if key not in self._known:
            return False, None
        answer, asked = self._known.get(key, (None, 0.0))
        # A machine that was busy may have time now.
        is_old = isinstance(answer, ProgramStopped) and time.monotonic() - asked > _STOPPED_SECONDS
        return not is_old, answer

    def _keep(self, key: str, answer: Any) -> None:
        if len(self._known) >= _MOST_KNOWN:
            oldest, *_ = self._known  # in one step, because other threads may add entries
            self._known.pop(oldest, None)
        self._known[key] = answer, time.monotonic()


def _question(service: str, document: Mapping[str, Any]) -> dict[str, Json]:
    # Types are asked of a document before and after it is compiled, and depend on these fields alone.
    names = document if service != "types" else [name for name in _OF_TYPES if name in document]
    return {"service": service, "document": {name: document[name] for name in names}}


_OF_TYPES: Final = ("code", "input", "inputs", "tools", "values")


def _key(message: dict[str, Json], cards: Any) -> str:
    return digest([message, None if cards is None else cards.toolbox.version])


def _conversation(message: dict[str, Json], cards: Any) -> Conversation:
    """Ask a question, and answer with the schemas of tools, of which the child asks by name."""
    reply = yield message
    while True:
        card = None if cards is None else cards(str(reply.get("tool")))
        schemas: Json = None if card is None else {"input": card.input_schema, "output": card.output_schema}
        reply = yield {"schemas": schemas}


HERE: Final[PlanReader] = ReaderHere()
_ELSEWHERE: Final = ReaderElsewhere()


def reader_of(document: Mapping[str, Any]) -> PlanReader:
    """Return the reader of a plan by its origin."""
    return HERE if document.get(ORIGIN) is None else _ELSEWHERE


def with_origin(document: Any) -> Any:
    """Return a document that came over HTTP or MCP, with its programs marked as those of a model."""
    if not isinstance(document, Mapping):
        return document
    if document.get("kind") == "plan" or "code" in document:
        return {**document, ORIGIN: MODEL}
    return document


async def prepare_names(code: str) -> None:
    """Ask for the names in a program of a model without blocking the event loop."""
    await _ELSEWHERE.prepare_names(code)


async def prepare(document: Mapping[str, Any], project: Project) -> None:
    """Ask everything about a plan of a model without blocking the event loop; its reader knows the answers then."""
    from .tools import with_tools

    code = document.get("code")
    if not isinstance(code, str):
        return
    await _ELSEWHERE.prepare_names(code)
    await _ELSEWHERE.prepare(with_tools(document, project.toolbox, _ELSEWHERE, project.effects), project)


# --- what a child answers ----------------------------------------------------------------------


def judged(message: Mapping[str, Any], answer: Any) -> Any:
    """Return the answer of a child; raise ProgramStopped for one that no child of ours gives."""
    match message["service"], answer:
        case "names", {"names": list(names), "values": list(values)} if all(type(one) is str for one in names + values):
            return answer
        case "compile", {"problems": list(problems)} if all(map(_is_problem, problems)):
            return answer
        case "compile", {"input": dict() | None, "outline": _}:
            return answer
        case "types", [list(wrong), list(doubtful), _] if all(map(_is_problem, wrong + doubtful)):
            return answer
    raise ProgramStopped("forged", Limits())


def _is_problem(fields: Any) -> bool:
    return isinstance(fields, dict) and all(isinstance(fields.get(name), str) for name in ("path", "message"))


def _problem(fields: Mapping[str, Any]) -> Problem:
    suggestion, column = fields.get("suggestion"), fields.get("column")
    return Problem(
        path=str(fields["path"]),
        message=str(fields["message"]),
        suggestion=None if suggestion is None else str(suggestion),
        column=column if type(column) is int else None,
    )


def _stopped(error: ProgramStopped) -> Problem:
    return Problem(path="code", message=str(error), column=1)


def compiled_from(document: Mapping[str, Any], answer: Any) -> Compiled:
    """Return the plan of a document that a child has read."""
    if isinstance(answer, ProgramStopped):
        raise InvalidFlow([_stopped(answer)])
    if "problems" in answer:
        raise InvalidFlow(map(_problem, answer["problems"]))
    from .render import plan_of, read_fields

    try:
        outline = from_json(answer["outline"])
    except (KeyError, ValueError):
        raise InvalidFlow([_stopped(ProgramStopped("forged", Limits()))]) from None
    return plan_of({**document, **read_fields(document)}, answer["input"], outline)
