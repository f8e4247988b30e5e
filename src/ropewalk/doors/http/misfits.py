"""What of a request does not fit its route, in words: keys and parameters that there are not, values of other types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, get_args

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel

from ...errors import Problem
from ...values import closest

_LONGEST: Final = 60  # characters of a value that are shown
_MOST: Final = 200  # that are told of one request; each is looked at for what was meant, while nothing else is done
_EXTRA: Final = "extra_forbidden"
_TWICE: Final = "twice"
_TOKEN: Final = "token"  # which the guard takes
_BRANCHES: Final = ("dict[str,any]", "str")  # what pydantic adds to the place of a value that may be this or that

_WANTED: Final[dict[str, Callable[[Mapping[str, Any]], str]]] = {
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
    "greater_than_equal": lambda about: f"at least {about['ge']:g}",
    "less_than_equal": lambda about: f"at most {about['le']:g}",
    "literal_error": lambda about: str(about["expected"]),
    "string_too_short": lambda about: f"text of at least {_counted(about['min_length'], 'character')}",
    "string_too_long": lambda about: f"text of at most {_counted(about['max_length'], 'character')}",
    "too_long": lambda about: f"a list of at most {about['max_length']}",
}
"""What would be right, by the kind of the error."""


def misfits(request: Request, found: Sequence[Mapping[str, Any]]) -> list[Problem]:
    """What the framework found, each at its place, with what would be right; of more than 200 the last says so."""
    wanted: dict[tuple[Any, ...], list[str]] = {}
    given: dict[tuple[Any, ...], Any] = {}
    problems: dict[tuple[Any, ...], Problem] = {}
    for one in found[:_MOST]:
        place = tuple(one["loc"])
        if len(place) > 2 and place[-1] in _BRANCHES:
            place = place[:-1]
        path = ".".join(map(str, place))
        if one["type"] in _WANTED:
            wanted.setdefault(place, []).append(_WANTED[one["type"]](one.get("ctx") or {}))
            given[place] = one.get("input")
            message = f"is to be {' or '.join(wanted[place])}, not {_shown(given[place])}"
            near = _named(given[place], one) if one["type"] == "literal_error" else None
            problems[place] = Problem(path=path, message=message, suggestion=near)
        elif one["type"] == _EXTRA:
            message, near = _unknown(request, place)
            problems[place] = Problem(path=path, message=message, suggestion=near)
        elif one["type"] == "missing":
            what = "; send an object, as JSON" if place == ("body",) else ""
            problems[place] = Problem(path=path, message=f"is missing{what}")
        else:
            problems[place] = Problem(path=path, message=str(one["msg"]))
    more = [Problem(path="", message=f"more than {_MOST} problems")] if len(found) > _MOST else []
    return [*problems.values(), *more]


def unknown_parameters(request: Request, route: APIRoute) -> list[dict[str, Any]]:
    """What stands behind the ? of an address and is no parameter of the route, or stands there twice."""
    if not request.query_params:
        return []
    names = [name for name, _ in request.query_params.multi_items()]
    known = _parameters(route)
    wrong = [
        {"type": _TWICE, "loc": ("query", name), "msg": "is there more than once"}
        for name in dict.fromkeys(names)
        if name in known and names.count(name) > 1
    ]
    return wrong + [
        {"type": _EXTRA, "loc": ("query", name)} for name in dict.fromkeys(names) if name not in (*known, _TOKEN)
    ]


def _parameters(route: APIRoute) -> list[str]:
    return [one.alias for one in route.dependant.query_params]


def _unknown(request: Request, place: Sequence[Any]) -> tuple[str, str | None]:
    """What is said of a key or parameter that there is not, and which one was probably meant."""
    route = request.scope.get("route")
    if place[0] == "query" and isinstance(route, APIRoute):
        keys = _parameters(route)
        there = f"there are {', '.join(keys)}" if keys else "this route takes none"
        return f"no such parameter; {there}", closest(str(place[-1]), keys)
    field = route.body_field if isinstance(route, APIRoute) else None
    model: Any = field.field_info.annotation if field is not None else None
    for part in place[1:-1]:
        model = _model(model.model_fields[part].annotation) if isinstance(part, str) and model else None
    if model is None:
        return "no such key", None
    keys = [one.alias or name for name, one in model.model_fields.items()]
    return f"no such key; there are {', '.join(keys)}", closest(str(place[-1]), keys)


def _model(annotation: Any) -> type[BaseModel] | None:
    """The model in `Model | None`."""
    found = [one for one in (annotation, *get_args(annotation)) if isinstance(one, type) and issubclass(one, BaseModel)]
    return found[0] if found else None


def _named(given: Any, error: Mapping[str, Any]) -> str | None:
    """Which of the words that may be given was probably meant."""
    words = str(error["ctx"]["expected"]).replace(" or ", ", ").split(", ")
    return closest(str(given), [word.strip("'") for word in words])


def _shown(given: Any) -> str:
    if isinstance(given, (dict, list)):
        return "an object" if isinstance(given, dict) else "a list"
    if given is None or isinstance(given, bool):
        return {None: "null", True: "true", False: "false"}[given]
    said = repr(given)
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}..."


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
