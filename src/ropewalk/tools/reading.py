"""The arguments of a call made into the types that a function's hints ask for.

What a type refuses is refused like arguments that do not fit the schema: all of it at once, each with its place. What
the function itself raises is none of this. How a hint reads a value is in `hints.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ..errors import Problem, ValidationFailed
from ..errors.foreign import text_of, with_type
from ..errors.given import listed
from ..schema import segment
from ..values import Json
from .hints import Convert


def reading(
    tool: str, reads: Mapping[str, Convert], more: Convert | None, named: Collection[str]
) -> Callable[[dict[str, Json]], dict[str, Any]]:
    """From arguments to what the function gets; `more` reads those that are not `named`. ValidationFailed lists
    every one that its type refuses."""

    def reader(name: str) -> Convert | None:
        return reads.get(name) if name in named else more

    def refusal(args: dict[str, Json]) -> ValidationFailed | None:
        problems: list[Problem] = []
        cause: Exception | None = None
        for name, value in args.items():
            read = reader(name)
            try:
                if read is not None:
                    read(value)
            except Exception as error:  # noqa: BLE001 - whatever a type raises of a value, it refuses it
                cause = cause or error
                problems += _problems(f"args{segment(name)}", value, error)
        if cause is None:
            return None
        failed = ValidationFailed(tool, "validate_input", listed(problems), problems=problems)
        failed.__cause__ = cause
        return failed

    def given(args: dict[str, Json]) -> dict[str, Any]:
        try:
            if more is None:
                return {name: reads[name](value) if name in reads else value for name, value in args.items()}
            return {name: value if (read := reader(name)) is None else read(value) for name, value in args.items()}
        except Exception as error:
            failed = refusal(args)
            if failed is None:
                raise  # it refuses a value once and takes it then: that is a failure of its own
            raise failed from error

    return given


def _problems(place: str, value: Json, error: Exception) -> Iterator[Problem]:
    """What is wrong with one argument, by the first line of what is said of it."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is None or not isinstance(error, pydantic.ValidationError):
        said = text_of(error)
        alone = isinstance(error, LookupError) or not said
        yield Problem(path=place, message=_line(with_type(error) if alone else said))
        return
    for one in error.errors(include_url=False, include_context=False, include_input=False):
        yield Problem(path=place + _below(value, one["loc"], one["type"] == "missing"), message=_line(one["msg"]))


def _below(value: Any, steps: tuple[str | int, ...], missing: bool) -> str:
    """The place inside of the value. What pydantic names beside its members (which of several types) is left out."""
    found = ""
    for number, step in enumerate(steps, 1):
        inside = step in value if isinstance(value, dict) else isinstance(value, list) and step in range(len(value))
        if inside:
            value = value[step]
        elif not (missing and number == len(steps)):
            continue
        found += segment(step)
    return found


def _line(text: str) -> str:
    return (text.splitlines() or [""])[0]
