"""Requests read and answers written: JSON within the limits, and one table from an error to a status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

import orjson
from fastapi import Depends, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel

from ...app import App
from ...deadline import DEFINITION_SECONDS, in_thread
from ...errors import (
    ConfigError,
    ExpressionError,
    FlowFailed,
    InvalidCursor,
    InvalidFlow,
    InvalidInput,
    InvalidTool,
    InvalidToolId,
    InvalidValue,
    JournalConflict,
    NoExecutor,
    NotFound,
    PartOfRun,
    RopewalkError,
    RunBusy,
    RunStopped,
    RunTimeout,
    StoreError,
    ToolError,
    ToolNotApproved,
    ToolNotFound,
    ToolTimeout,
    UnsupportedSchema,
    ValidationFailed,
)
from ...source import load
from ...told import error_data, problem_data
from .flow_files import FlowFiles
from .misfits import misfits, unknown_parameters
from .wording import message_of, no_route

Read = TypeVar("Read")

ERRORS: Final[tuple[tuple[type[BaseException], int], ...]] = (
    # The first line that fits decides, so the narrower kinds stand first.
    (InvalidFlow, 422),
    (ExpressionError, 422),
    (UnsupportedSchema, 422),
    (InvalidTool, 422),
    (InvalidInput, 422),
    (InvalidValue, 422),
    (ValidationFailed, 422),
    (InvalidToolId, 422),
    (InvalidCursor, 422),
    (ToolNotApproved, 409),
    (NotFound, 404),
    (ToolNotFound, 404),
    (RunBusy, 409),
    (PartOfRun, 409),
    (NoExecutor, 409),
    (JournalConflict, 409),
    (RunStopped, 409),
    (RunTimeout, 504),
    (ToolTimeout, 504),
    (ToolError, 502),
    (FlowFailed, 502),
    (StoreError, 503),
    (ConfigError, 500),
    (RopewalkError, 409),
)


def status_of(error: BaseException) -> int:
    """The HTTP status that an error is answered with."""
    return next((status for kind, status in ERRORS if isinstance(error, kind)), 500)


def _served(request: Request) -> App:
    return request.app.state.served  # type: ignore[no-any-return]


Served = Annotated[App, Depends(_served)]
"""The app that a route serves."""


def _files(request: Request) -> FlowFiles:
    return request.app.state.files  # type: ignore[no-any-return]


Files = Annotated[FlowFiles, Depends(_files)]
"""The project's flows in files."""


class Told(BaseModel):
    """One thing that is wrong; `file`, `line` and `column` where it is in a document's text."""

    file: str | None
    line: int | None
    column: int | None
    path: str
    message: str
    suggestion: str | None


class Explained(BaseModel):
    kind: str
    message: str
    problems: list[Told]


class Error(BaseModel):
    """What every refusal looks like."""

    error: Explained


_MEANING: Final = {
    400: "not a request that can be read",
    401: "no token, or a wrong one",
    403: "sent by another site",
    404: "nothing has this id",
    409: "not as things stand",
    413: "too large",
    415: "not sent as application/json",
    421: "this door has other names",
    422: "wrong: everything that is, each at its place",
    502: "a tool failed",
    503: "the store cannot be reached",
    504: "no answer in time",
}
REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": Error, "description": said} for status, said in _MEANING.items()
}
"""What any route may answer besides, for the OpenAPI document."""


class Answer(JSONResponse):
    """JSON as every store and door writes it."""

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


SMALL: Final = 32_768  # bytes of a body that are read at once: some milliseconds


async def patiently(size: int, work: Callable[[], Read]) -> Read:
    """Do work that reads or checks `size` bytes of a definition: much of it in a thread, with a limit of time.

    Raises:
        InvalidFlow: It took too long.
    """
    return work() if size <= SMALL else await in_thread(work, DEFINITION_SECONDS)


class Body(Request):
    """A request whose JSON is read as definitions are: within limits, no NaN, no repeated keys."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            raw = await self.body()
            try:
                text = raw.decode()
            except UnicodeDecodeError:
                raise HTTPException(422, "the body is not UTF-8") from None
            try:
                self._json = await patiently(len(raw), lambda: load(text, form="json", name="body").data)
            except InvalidFlow as error:
                said = [{**problem_data(p), "file": "body"} for p in error.problems]
                raise HTTPException(422, said) from None
        return self._json


class Route(APIRoute):
    """A route that reads its body as `Body` does, and takes no parameters in the address but its own."""

    def get_route_handler(self) -> Any:
        handle = super().get_route_handler()

        async def read(request: Request) -> Any:
            wrong = unknown_parameters(request, self)
            if wrong:
                raise RequestValidationError(wrong)
            return await handle(Body(request.scope, request.receive))

        return read


def answer_error(_: Request, error: Exception) -> Answer:
    """A RopewalkError, told."""
    return Answer(error_data(error, message_of(error)), status_of(error))


def answer_fault(_: Request, error: Exception) -> Answer:
    """What nobody foresaw: the server's log has it, with where it came from."""
    said = "internal error; the log of the server has it"
    return Answer({"error": {"kind": "InternalError", "message": said, "problems": []}}, 500)


def answer_refusal(request: Request, error: Exception) -> Answer:
    """What the framework refuses (an unknown path, a wrong method, a body that is no JSON), in the same shape."""
    assert isinstance(error, HTTPException) or hasattr(error, "status_code")
    detail: Any = getattr(error, "detail", "")
    problems = detail if isinstance(detail, list) else []
    status, headers = getattr(error, "status_code", 500), getattr(error, "headers", None)
    kind, message = "InvalidRequest", problems[0]["message"] if problems else str(detail)
    if detail in ("Not Found", "Method Not Allowed"):  # the framework's own words
        kind, message = no_route(request, status) or (kind, message)
        status = 404 if kind == "NotFound" else status
    elif status == 404:
        kind = "NotFound"
    return Answer({"error": {"kind": kind, "message": message, "problems": problems}}, status, headers=headers)


def answer_misfit(request: Request, error: Exception) -> Answer:
    """A request whose parts do not fit what the route takes."""
    assert isinstance(error, RequestValidationError)
    if isinstance(error.body, bytes):  # which was not read as JSON
        said = f"the body is sent as {request.headers.get('content-type') or 'nothing'}; send it as application/json"
        return Answer({"error": {"kind": "InvalidRequest", "message": said, "problems": []}}, 415)
    problems = misfits(request, error.errors())
    said = "; ".join(map(str, problems))
    data = {"kind": "InvalidRequest", "message": said, "problems": [problem_data(one) for one in problems]}
    return Answer({"error": data}, 422)
