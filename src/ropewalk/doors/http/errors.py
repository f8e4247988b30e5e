"""Read requests and write answers: JSON within the limits, and one table from an error to a status.

Also describe how a request does not match its route: unknown keys and parameters, values of the wrong type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar, get_args

import orjson
from fastapi import Depends, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel

from ...app.app import App
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
    Problem,
    RopewalkError,
    RunBusy,
    RunStopped,
    RunTimeout,
    StoreError,
    ToolError,
    ToolNotApproved,
    ToolNotFound,
    ToolTimeout,
    UnknownLanguage,
    UnsupportedSchema,
    ValidationFailed,
)
from ...source.load import load
from ...values import did_you_mean
from ..errors import error_payload, problem_payload
from ..remedies import Door
from .flow_files import FlowFiles
from .root_path import route_path
from .served import FILES, SERVED

_LONGEST: Final = 60  # characters of a value that are shown
_MOST: Final = 200  # that are told of one request; each is looked at for what was meant, while nothing else is done
_EXTRA: Final = "extra_forbidden"
_TWICE: Final = "twice"
_TOKEN: Final = "token"  # which the guard takes
_BRANCHES: Final = ("dict[str,any]", "str")  # what pydantic adds to the place of a value that may be this or that

_EXPECTED: Final[dict[str, Callable[[Mapping[str, Any]], str]]] = {
    "model_attributes_type": lambda _: "an object",
    "model_type": lambda _: "an object",
    "dict_type": lambda _: "an object",
    "list_type": lambda _: "a list",
    "string_type": lambda _: "text",
    "float_type": lambda _: "a number",
    "float_parsing": lambda _: "a number",
    "finite_number": lambda _: "a number",
    "int_type": lambda _: "a whole number",
    "int_parsing": lambda _: "a whole number",
    "int_parsing_size": lambda _: "a whole number",
    "int_from_float": lambda _: "a whole number",
    "bool_type": lambda _: "true or false",
    "bool_parsing": lambda _: "true or false",
    "greater_than_equal": lambda context: f"at least {context['ge']:g}",
    "less_than_equal": lambda context: f"at most {context['le']:g}",
    "literal_error": lambda context: str(context["expected"]),
    "string_too_short": lambda context: f"text of at least {_counted(context['min_length'], 'character')}",
    "string_too_long": lambda context: f"text of at most {_counted(context['max_length'], 'character')}",
    "too_long": lambda context: f"a list of at most {context['max_length']}",
}
"""What would be right, by the kind of the error."""


def validation_errors(request: Request, errors: Sequence[Mapping[str, Any]]) -> list[Problem]:
    """Return the errors of the framework as problems with suggestions; the last one counts those beyond 200."""
    expected: dict[tuple[Any, ...], list[str]] = {}
    arguments: dict[tuple[Any, ...], Any] = {}
    problems: dict[tuple[Any, ...], Problem] = {}
    for item in errors[:_MOST]:
        # The framework reports each member of a union; they are one problem of the same place.
        place = tuple(item["loc"])
        if len(place) > 2 and place[-1] in _BRANCHES:
            place = place[:-1]
        path = ".".join(map(str, place))
        if item["type"] in _EXPECTED:
            expected.setdefault(place, []).append(_EXPECTED[item["type"]](item.get("ctx") or {}))
            arguments[place] = item.get("input")
            message = f"must be {' or '.join(expected[place])}, not {_short_text(arguments[place])}"
            message += _object_hint(request, place, arguments[place])
            near = _nearest_allowed(arguments[place], item) if item["type"] == "literal_error" else None
            problems[place] = Problem(path=path, message=message, suggestion=near)
        elif item["type"] == _EXTRA:
            message, near = _unknown(request, place)
            problems[place] = Problem(path=path, message=message, suggestion=near)
        elif item["type"] == "missing":
            what = "; send an object, as JSON" if place == ("body",) else ""
            problems[place] = Problem(path=path, message=f"is missing{what}")
        else:
            problems[place] = Problem(path=path, message=str(item["msg"]))
    more = [Problem(path="", message=f"more than {_MOST} problems")] if len(errors) > _MOST else []
    return [*problems.values(), *more]


def unknown_parameters(request: Request, route: APIRoute) -> list[dict[str, Any]]:
    """Return a problem for each query parameter that the route does not have, or that occurs twice."""
    if not request.query_params:
        return []
    names = [name for name, _ in request.query_params.multi_items()]
    known = _parameters(route)
    wrong = [
        {"type": _TWICE, "loc": ("query", name), "msg": "is given more than once"}
        for name in dict.fromkeys(names)
        if name in known and names.count(name) > 1
    ]
    return wrong + [
        {"type": _EXTRA, "loc": ("query", name)} for name in dict.fromkeys(names) if name not in (*known, _TOKEN)
    ]


def _parameters(route: APIRoute) -> list[str]:
    return [item.alias for item in route.dependant.query_params]


def _unknown(request: Request, place: Sequence[Any]) -> tuple[str, str | None]:
    """Return the problem for an unknown key or parameter, with the nearest known one."""
    route = request.scope.get("route")
    if place[0] == "query" and isinstance(route, APIRoute):
        keys = _parameters(route)
        there = f"the parameters are {', '.join(keys)}" if keys else "this route takes none"
        return f"no such parameter; {there}", did_you_mean(str(place[-1]), keys)
    model = _model_at(request, place[:-1])
    if model is None:
        return "no such key", None
    keys = [item.alias or name for name, item in model.model_fields.items()]
    return f"no such key; the keys are {', '.join(keys)}", did_you_mean(str(place[-1]), keys)


def _model_at(request: Request, place: Sequence[Any]) -> Any:
    """Return the model of the object at a place of the body, or None."""
    route = request.scope.get("route")
    field = route.body_field if isinstance(route, APIRoute) else None
    model: Any = field.field_info.annotation if field is not None else None
    for part in place[1:]:
        field = model.model_fields.get(part) if isinstance(part, str) and model else None
        model = None if field is None else _model(field.annotation)
    return model


def _object_hint(request: Request, place: Sequence[Any], value: Any) -> str:
    """Return the object to write in place of a text, for the models that know one."""
    model = _model_at(request, place) if isinstance(value, str) and place[0] == "body" else None
    object_for = getattr(model, "object_for", None)
    if object_for is None or len(value) > _LONGEST:
        return ""
    return f"; write {orjson.dumps(object_for(value)).decode()}"


def _model(annotation: Any) -> type[BaseModel] | None:
    """Return the model in `Model | None`."""
    result = [
        item for item in (annotation, *get_args(annotation)) if isinstance(item, type) and issubclass(item, BaseModel)
    ]
    return result[0] if result else None


def _nearest_allowed(value: Any, error: Mapping[str, Any]) -> str | None:
    """Return the nearest of the allowed words."""
    words = str(error["ctx"]["expected"]).replace(" or ", ", ").split(", ")
    return did_you_mean(str(value), [word.strip("'") for word in words])


def _short_text(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    message = repr(value)
    return message if len(message) <= _LONGEST else f"{message[:_LONGEST]}..."


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


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
    (UnknownLanguage, 409),
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
    """Return the HTTP status of an error."""
    return next((status for kind, status in ERRORS if isinstance(error, kind)), 500)


# Async, as FastAPI would call them in threads of their own otherwise.
async def _served(request: Request) -> App:
    return request.scope[SERVED]  # type: ignore[no-any-return]


Served = Annotated[App, Depends(_served)]
"""The app that a route serves."""


async def _files(request: Request) -> FlowFiles:
    return request.scope[FILES]  # type: ignore[no-any-return]


Files = Annotated[FlowFiles, Depends(_files)]
"""The project's flows in files."""


class ProblemModel(BaseModel):
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
    problems: list[ProblemModel]
    at: str | None = None
    stack: str | None = None


class Error(BaseModel):
    """The shape of every refusal."""

    error: Explained


_MEANING: Final = {
    400: "the request cannot be read",
    401: "the token is missing or wrong, or the session has ended",
    403: "the request was sent by another site",
    404: "nothing has this id",
    409: "a conflict with the current state",
    413: "the body is too large",
    415: "the body was not sent as application/json",
    421: "the server does not know this host name",
    422: "the request is wrong; lists all problems with their places",
    502: "a tool failed",
    503: "the store cannot be reached",
    504: "no answer in time",
}
REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": Error, "description": message} for status, message in _MEANING.items()
}
"""What any route may answer besides, for the OpenAPI document."""


class Answer(JSONResponse):
    """JSON as every store and door writes it."""

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


SMALL: Final = 32_768  # bytes of a body that are read at once: some milliseconds


async def patiently(size: int, work: Callable[[], Read]) -> Read:
    """Do work that reads or checks `size` bytes of a definition: much of it in a thread, with a limit of time."""
    return work() if size <= SMALL else await in_thread(work, DEFINITION_SECONDS)


async def load_patiently(app: App, size: int, work: Callable[[], Read]) -> Read:
    """Load a definition as `patiently` does; for a plan, connect the servers whose tools it names."""
    return await app.definitions.connecting(lambda: patiently(size, work))


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
                problems = [{**problem_payload(p, Door.HTTP), "file": "body"} for p in error.problems]
                raise HTTPException(422, problems) from None
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


async def answer_error(request: Request, error: Exception) -> Answer:
    """Answer with a RopewalkError as data."""
    payload = error_payload(error, Door.HTTP)
    # The id of a run may contain slashes, so a misspelt word after it looks like a part of it.
    if isinstance(error, NotFound) and (near := _one_word_off(route_path(request.scope), _routes_of(request))):
        payload["error"]["message"] += f"; did you mean {near}?"
    return Answer(payload, status_of(error))


async def answer_fault(_: Request, error: Exception) -> Answer:
    """Answer an internal error."""

    # The log of the server has its traceback.
    message = "internal error; the log of the server has it"
    return Answer({"error": {"kind": "InternalError", "message": message, "problems": []}}, 500)


async def answer_refusal(request: Request, error: Exception) -> Answer:
    """Answer a refusal of the framework (unknown path, wrong method, invalid JSON) in the shape of all errors."""
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
    """Answer a request that does not match its route."""
    assert isinstance(error, RequestValidationError)
    if isinstance(error.body, bytes):  # which was not read as JSON
        message = f"the body is sent as {request.headers.get('content-type') or 'nothing'}; send it as application/json"
        return Answer({"error": {"kind": "InvalidRequest", "message": message, "problems": []}}, 415)
    problems = validation_errors(request, error.errors())
    message = "; ".join(map(str, problems))
    data = {
        "kind": "InvalidRequest",
        "message": message,
        "problems": [problem_payload(item, Door.HTTP) for item in problems],
    }
    return Answer({"error": data}, 422)


def no_route(request: Request, status: int) -> tuple[str, str] | None:
    """Return kind and message for an unknown path or a wrong method; None for any other refusal."""
    path, method = route_path(request.scope), request.method
    routes = _routes_of(request)
    takes = sorted({name for route in routes if route.path_regex.match(path) for name in route.methods or ()})
    if status == 405 and takes:
        hint = _suggestion(path, [route for route in routes if method in (route.methods or ())])
        return "MethodNotAllowed", f"{path} takes {' and '.join(takes)}, not {method}{hint}"
    if status in (404, 405):
        near = _one_word_off(path, routes) or did_you_mean(path, (route.path_format for route in routes))
        hint = f"; did you mean {near}?" if near else ""
        return "NotFound", f"no route {path}{hint}; GET /api/openapi.json describes every one"
    return None


def _routes_of(request: Request) -> list[APIRoute]:
    return [route for route in request.app.state.routes if route.include_in_schema]


def _one_word_off(path: str, routes: Sequence[APIRoute]) -> str | None:
    """Return the route that a path has with one word misspelt, whatever the ids in it: `/api/runs/ID/lgos`."""
    parts = path.split("/")
    meant: dict[tuple[str, str], str] = {}  # by the wrong word and the right one
    for route in routes:
        words = route.path_format.split("/")
        if len(words) == len(parts):
            wrong = [(a, b) for a, b in zip(parts, words, strict=True) if a != b and not b.startswith("{")]
            if len(wrong) == 1:
                meant.setdefault(wrong[0], route.path_format)
    return next((form for (part, word), form in meant.items() if did_you_mean(part, [word])), None)


def _suggestion(path: str, routes: Sequence[APIRoute]) -> str:
    """Return a hint for a misspelt last word of a path, such as `/api/runs/ID/rety`."""
    words = {route.path_format.rpartition("/")[2]: route.path_format for route in routes}
    near = did_you_mean(path.rpartition("/")[2], [word for word in words if "{" not in word])
    return "" if near is None else f"; did you mean {words[near]}?"
