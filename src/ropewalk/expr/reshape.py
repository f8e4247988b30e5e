"""Functions that reshape objects: pick, omit, rename, merge and the like, and the registry of
`@transform` functions for CUSTOM.

Refused: a transform that is not JSON in, JSON out; it must be pure, since a resumed run computes
it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar, overload

from ..errors import ExpressionError, InvalidValue
from ..errors.foreign import passes, with_type
from ..values import Json, check_json, closest
from .ast import Path
from .budget import LIST_ELEMENT, OBJECT_FIELD, Budget, grow, toil
from .paths import walk
from .table import EVERY, MANY, function, listed, wants

Pure = TypeVar("Pure", bound=Callable[[Any], Any])

TRANSFORMS: Final[dict[str, Callable[[Json], Json]]] = {}
"""Every registered CUSTOM function by name."""


@overload
def transform(run: Pure, /) -> Pure: ...
@overload
def transform(name: str, /) -> Callable[[Pure], Pure]: ...
def transform(name: Any, /) -> Any:
    """Register a pure function of one JSON value for CUSTOM transforms, under its own name
    (`@transform`) or another (`@transform("name")`)."""
    if callable(name):
        TRANSFORMS[name.__name__] = name
        return name

    def register(run: Pure) -> Pure:
        TRANSFORMS[name] = run
        return run

    return register


_WHERE: Final = "; put @transform above its function, in a module that is imported before, as those of [tools] modules"


def registered(name: Json) -> Callable[[Json], Json]:
    """The transform of this name; ExpressionError where there is none."""
    run = TRANSFORMS.get(name) if type(name) is str else None
    if run is None:
        message, near = unregistered(name)
        raise ExpressionError(message, suggestion=near)
    return run


def unregistered(name: Json) -> tuple[str, str | None]:
    """What is said of a name that no transform has here, and the one that may be meant; without one, where it would
    have to be registered, since that is done by whichever process reads the definition."""
    said = f"no transform {name!r} is registered"
    if type(name) is not str:
        return said, None
    near = closest(name, TRANSFORMS)
    return (said if near else f"{said}{_WHERE}"), near


@function("custom", 2)
def _custom(name: Json, value: Json) -> Json:
    run = registered(name)
    try:
        return check_json(run(value), f"result of {name}")
    except ExpressionError:
        raise
    except InvalidValue as error:
        raise ExpressionError(f"transform {name} failed: {error}") from error
    except BaseException as error:
        if passes(error):
            raise
        raise ExpressionError(f"transform {name} failed: {with_type(error)}") from error


def _each_object(name: str, budget: Budget | None, value: Json, run: Callable[[dict[str, Json]], Json]) -> Json:
    """`run` on an object, or on each object of a list; null stays null."""
    if type(value) is dict:
        return run(value)
    if type(value) is list:
        grow(budget, LIST_ELEMENT * len(value))
        return [run(item) if type(item) is dict else item for item in value]
    if value is None:
        return None
    raise wants(name, "an object or a list of objects", value)


def field_path(name: str, text: Json) -> Path:
    """The path that a field such as `a.b` or `["any key"].c` names."""
    if type(text) is not str or not text:
        raise wants(name, "field names", text)
    if re.fullmatch(r"[\w-]+", text):
        return (text,)
    dotted = text if text.startswith("[") else f".{text}"
    path, end = walk(dotted, 0, state=False, loose=True)
    if end < len(dotted) or not all(type(step) is str for step in path):
        return (text,)
    return path


@function("pick", 2, budget=True, keeps=(0,))
def _pick(budget: Budget | None, value: Json, fields: Json) -> Json:
    paths = list(dict.fromkeys([field_path("pick", field) for field in listed("pick", fields)]))
    if type(value) is list:
        toil(budget, len(value) * len(paths) >> _PICKS)

    def run(item: dict[str, Json]) -> Json:
        grow(budget, OBJECT_FIELD * (1 + min(len(item), len(paths))))
        out: dict[str, Json] = {}
        made: set[int] = set()
        for path in paths:
            _copy_path(item, out, path, made)
        return out

    return _each_object("pick", budget, value, run)


_PICKS: Final = 3  # fields of objects, of which 2 to the power of this many are a step


def _copy_path(source: dict[str, Json], out: dict[str, Json], path: Path, made: set[int]) -> None:
    """`made` are the objects in `out` that are its own, not the source's."""
    found: Json = source
    for step in path:
        if type(found) is not dict or step not in found:
            return
        found = found[step]
    for step in path[:-1]:
        own: Any = out.get(str(step))
        if id(own) not in made:
            own = dict(own) if type(own) is dict else {}  # the source's own object, picked whole before
            made.add(id(own))
            out[str(step)] = own
        out = own
    out[str(path[-1])] = found


@function("omit", 2, budget=True, keeps=(0,))
def _omit(budget: Budget | None, value: Json, fields: Json) -> Json:
    left_out: _Out = {}
    for field in listed("omit", fields):
        *outer, last = map(str, field_path("omit", field))
        at: _Out | None = left_out
        for key in outer:
            at = at.setdefault(key, {}) if at is not None else None
        if at is not None:  # else what it is in is left out whole
            at[last] = None
    return _each_object("omit", budget, value, lambda item: _without(item, left_out, budget))


_Out: TypeAlias = "dict[str, _Out | None]"
"""What is left out of an object: None is all that is at a key, else what of it."""


def _without(item: dict[str, Json], left_out: _Out, budget: Budget | None) -> dict[str, Json]:
    """In one walk, however many are left out."""
    grow(budget, OBJECT_FIELD * (1 + len(item)))
    kept: dict[str, Json] = {}
    for key, value in item.items():
        if key not in left_out:
            kept[key] = value
        elif (inside := left_out[key]) is not None:
            kept[key] = _without(value, inside, budget) if type(value) is dict else value
    return kept


@function("rename", 2, budget=True, keeps=EVERY)
def _rename(budget: Budget | None, value: Json, names: Json) -> Json:
    if type(names) is not dict or not all(type(name) is str for name in names.values()):
        raise ExpressionError("rename needs an object of old and new names")
    return _each_object("rename", budget, value, lambda item: _renamed(item, names, budget))


def _renamed(item: dict[str, Json], names: dict[str, str], budget: Budget | None) -> dict[str, Json]:
    grow(budget, OBJECT_FIELD * (1 + len(item)))
    taken = {names[key] for key in item if key in names}
    return {names.get(key, key): value for key, value in item.items() if key in names or key not in taken}


@function("merge", 1, MANY, returns="object", budget=True, keeps=EVERY)
def _merge(budget: Budget | None, *values: Json) -> Json:
    """Shallow: of two equal keys the later one wins; null adds nothing."""
    out: dict[str, Json] = {}
    budget = budget or Budget()  # the values count together
    for value in values:
        if type(value) is dict:
            grow(budget, OBJECT_FIELD * len(value))
            out.update(value)
        elif value is not None:
            raise wants("merge", "objects", value)
    return out


@function("deep_merge", 1, MANY, returns="object", budget=True, keeps=EVERY)
def _deep_merge(budget: Budget | None, *values: Json) -> Json:
    """Objects are merged at every depth; anything else is replaced by the later value."""
    out: Json = {}
    budget = budget or Budget()
    for value in values:
        if type(value) is not dict and value is not None:
            raise wants("deep_merge", "objects", value)
        out = _deeper(out, value or {}, budget)
    return out


def _deeper(a: dict[str, Json], b: dict[str, Json], budget: Budget | None) -> dict[str, Json]:
    grow(budget, OBJECT_FIELD * (1 + len(a) + len(b)))
    out = dict(a)
    for key, value in b.items():
        known = out.get(key)
        out[key] = _deeper(known, value, budget) if type(known) is dict and type(value) is dict else value
    return out


@function("concat", 1, MANY, returns="array", budget=True, keeps=EVERY)
def _concat(budget: Budget | None, *values: Json) -> list[Json]:
    """Lists one after the other; another value is one element, null adds nothing."""
    out: list[Json] = []
    budget = budget or Budget()
    for value in values:
        if type(value) is list:
            grow(budget, LIST_ELEMENT * len(value))
            out += value
        elif value is not None:
            out.append(value)
    return out


@function("zip", 1, MANY, returns="array", budget=True, keeps=EVERY)
def _zip(budget: Budget | None, *values: Json) -> list[Json]:
    """Rows of the elements at the same place, as long as the longest list; null fills up."""
    columns = [listed("zip", value) for value in values]
    longest = max(map(len, columns))
    grow(budget, longest * (56 + LIST_ELEMENT * len(columns)))
    return [[column[i] if i < len(column) else None for column in columns] for i in range(longest)]
