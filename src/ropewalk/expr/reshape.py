"""Functions that reshape objects (pick, omit, rename, merge and others), and the registry of `@transform` functions.

A `@transform` function takes JSON and returns JSON. It must be pure, because a resumed run computes it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar, overload

from ..errors import ExpressionError, InvalidValue, describe_exception, is_interruption
from ..values import Json, check_json, did_you_mean
from .ast import Path
from .function_registry import EVERY, MANY, function, list_argument, wrong_type
from .operators import LIST_ELEMENT, OBJECT_FIELD, Budget, charge, grow
from .reference_paths import read_path

Pure = TypeVar("Pure", bound=Callable[[Any], Any])

TRANSFORMS: Final[dict[str, Callable[[Json], Json]]] = {}
"""The registered functions for CUSTOM transforms, by name."""


@overload
def transform(run: Pure, /) -> Pure: ...
@overload
def transform(name: str, /) -> Callable[[Pure], Pure]: ...
def transform(name: Any, /) -> Any:
    """Register a pure function of one JSON value for CUSTOM transforms.

    Use `@transform` to register it under its own name, `@transform("name")` for another name.

    Args:
        name: The function, or the name.

    Returns:
        The function unchanged, or a decorator.
    """
    if callable(name):
        TRANSFORMS[name.__name__] = name
        return name

    def register(run: Pure) -> Pure:
        TRANSFORMS[name] = run
        return run

    return register


_WHERE: Final = "; put @transform on its function, in a module that is imported first, such as those of [tools] modules"


def registered_transform(name: Json) -> Callable[[Json], Json]:
    """Return the transform of this name; raise ExpressionError if it is not registered."""
    run = TRANSFORMS.get(name) if type(name) is str else None
    if run is None:
        message, near = unregistered_message(name)
        raise ExpressionError(message, suggestion=near)
    return run


def unregistered_message(name: Json) -> tuple[str, str | None]:
    """Return the message about a name that is not registered, and the most similar name."""

    # Without a similar name, the message tells where to register it, because each process that reads the definition
    # needs it.
    message = f"no transform {name!r} is registered"
    if type(name) is not str:
        return message, None
    suggestion = did_you_mean(name, TRANSFORMS)
    return (message if suggestion else f"{message}{_WHERE}"), suggestion


@function("custom", 2)
def _custom(name: Json, value: Json) -> Json:
    run = registered_transform(name)
    try:
        return check_json(run(value), f"result of {name}")
    except ExpressionError:
        raise
    except InvalidValue as error:
        raise ExpressionError(f"transform {name} failed: {error}") from error
    except BaseException as error:
        if is_interruption(error):
            raise
        raise ExpressionError(f"transform {name} failed: {describe_exception(error)}") from error


def _map_objects(name: str, budget: Budget | None, value: Json, run: Callable[[dict[str, Json]], Json]) -> Json:
    """Apply `run` to an object, or to each object of a list; null stays null."""
    if type(value) is dict:
        return run(value)
    if type(value) is list:
        grow(budget, LIST_ELEMENT * len(value))
        return [run(item) if type(item) is dict else item for item in value]
    if value is None:
        return None
    raise wrong_type(name, "an object or a list of objects", value)


def field_path(name: str, text: Json) -> Path:
    """Return the path of a field such as `a.b` or `["any key"].c`."""
    if type(text) is not str or not text:
        raise wrong_type(name, "field names", text)
    if re.fullmatch(r"[\w-]+", text):
        return (text,)
    dotted = text if text.startswith("[") else f".{text}"
    path, end = read_path(dotted, 0, state=False, loose=True)
    if end < len(dotted) or not all(type(step) is str for step in path):
        return (text,)
    return path


@function("pick", 2, budget=True, keeps=(0,))
def _pick(budget: Budget | None, value: Json, fields: Json) -> Json:
    paths = list(dict.fromkeys([field_path("pick", field) for field in list_argument("pick", fields)]))
    if type(value) is list:
        charge(budget, len(value) * len(paths) >> _PICKS)

    def run(item: dict[str, Json]) -> Json:
        grow(budget, OBJECT_FIELD * (1 + min(len(item), len(paths))))
        out: dict[str, Json] = {}
        own_ids: set[int] = set()
        for path in paths:
            _copy_path(item, out, path, own_ids)
        return out

    return _map_objects("pick", budget, value, run)


_PICKS: Final = 3  # 2 ** _PICKS picked fields cost one step


def _copy_path(source: dict[str, Json], out: dict[str, Json], path: Path, own_ids: set[int]) -> None:
    """Copy the value at a path; `own_ids` are the objects in `out` that are its own, not the source's."""
    value: Json = source
    for step in path:
        if type(value) is not dict or step not in value:
            return
        value = value[step]
    for step in path[:-1]:
        child: Any = out.get(str(step))
        if id(child) not in own_ids:
            child = (
                dict(child) if type(child) is dict else {}
            )  # it was picked as a whole before, and belongs to the source
            own_ids.add(id(child))
            out[str(step)] = child
        out = child
    out[str(path[-1])] = value


@function("omit", 2, budget=True, keeps=(0,))
def _omit(budget: Budget | None, value: Json, fields: Json) -> Json:
    left_out: _Omitted = {}
    for field in list_argument("omit", fields):
        *outer, last = map(str, field_path("omit", field))
        at: _Omitted | None = left_out
        for key in outer:
            at = at.setdefault(key, {}) if at is not None else None
        if at is not None:  # None: an outer object is omitted as a whole
            at[last] = None
    return _map_objects("omit", budget, value, lambda item: _omit_fields(item, left_out, budget))


_Omitted: TypeAlias = "dict[str, _Omitted | None]"
"""The omitted keys of an object: None omits the whole value, an inner dict omits keys of it."""


def _omit_fields(item: dict[str, Json], left_out: _Omitted, budget: Budget | None) -> dict[str, Json]:
    """Omit all fields in one walk."""
    grow(budget, OBJECT_FIELD * (1 + len(item)))
    remaining: dict[str, Json] = {}
    for key, value in item.items():
        if key not in left_out:
            remaining[key] = value
        elif (inside := left_out[key]) is not None:
            remaining[key] = _omit_fields(value, inside, budget) if type(value) is dict else value
    return remaining


@function("rename", 2, budget=True, keeps=EVERY)
def _rename(budget: Budget | None, value: Json, names: Json) -> Json:
    if type(names) is not dict or not all(type(name) is str for name in names.values()):
        raise ExpressionError("rename needs an object of old and new names")
    return _map_objects("rename", budget, value, lambda item: _rename_fields(item, names, budget))


def _rename_fields(item: dict[str, Json], names: dict[str, str], budget: Budget | None) -> dict[str, Json]:
    grow(budget, OBJECT_FIELD * (1 + len(item)))
    taken = {names[key] for key in item if key in names}
    return {names.get(key, key): value for key, value in item.items() if key in names or key not in taken}


@function("merge", 1, MANY, returns="object", budget=True, keeps=EVERY)
def _merge(budget: Budget | None, *values: Json) -> Json:
    """Merge objects at the top level: the later value of a key wins; null adds nothing."""
    out: dict[str, Json] = {}
    budget = budget or Budget()  # the values count together
    for value in values:
        if type(value) is dict:
            grow(budget, OBJECT_FIELD * len(value))
            out.update(value)
        elif value is not None:
            raise wrong_type("merge", "objects", value)
    return out


@function("deep_merge", 1, MANY, returns="object", budget=True, keeps=EVERY)
def _deep_merge(budget: Budget | None, *values: Json) -> Json:
    """Merge objects at every depth; any other value is replaced by the later one."""
    out: Json = {}
    budget = budget or Budget()
    for value in values:
        if type(value) is not dict and value is not None:
            raise wrong_type("deep_merge", "objects", value)
        out = _merge_deep(out, value or {}, budget)
    return out


def _merge_deep(a: dict[str, Json], b: dict[str, Json], budget: Budget | None) -> dict[str, Json]:
    grow(budget, OBJECT_FIELD * (1 + len(a) + len(b)))
    out = dict(a)
    for key, value in b.items():
        known = out.get(key)
        out[key] = _merge_deep(known, value, budget) if type(known) is dict and type(value) is dict else value
    return out


@function("concat", 1, MANY, returns="array", budget=True, keeps=EVERY)
def _concat(budget: Budget | None, *values: Json) -> list[Json]:
    """Concatenate lists; another value is one element, null adds nothing."""
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
    """Return rows of the elements at the same position, as many as the longest list has; null fills up."""
    columns = [list_argument("zip", value) for value in values]
    longest = max(map(len, columns))
    grow(budget, longest * (56 + LIST_ELEMENT * len(columns)))
    return [[column[i] if i < len(column) else None for column in columns] for i in range(longest)]
