"""The standard library's `dataclass`, with classes that are frozen or have slots made in a quarter of the time.

Until Python 3.13 a frozen dataclass costs six calls of `exec`, a quarter of a millisecond; this package has
dozens, and they were half of its start. Here classes of one shape share the code of `__init__`, the other
methods are written once. What they do is the same, and `fields`, `replace`, `asdict`, matching and
pickling work as ever; making an instance is faster. Type checkers see the standard one.

Refused: annotations that are no field, fields that `__init__` does not take, and a dataclass as a base. Whatever
is neither, or asks for more than these options, is handed to the standard library.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from copy import copy
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from functools import cache
from operator import attrgetter
from reprlib import recursive_repr
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any


class _Factory:
    """Stands in a signature for a default that is made for each instance."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Factory()
_OPTIONS = frozenset(("frozen", "slots", "kw_only", "eq", "repr"))


@dataclasses.dataclass(init=False, repr=False, eq=False)
class _Sample:
    """One of the standard library's, for the marks by which it knows its classes and fields."""

    field: Any


_MARKS: dict[str, Any] = {  # copy.replace of 3.13 looks for the second one
    name: vars(_Sample)[name] for name in ("__dataclass_params__", "__replace__") if name in vars(_Sample)
}
_FROZEN_MARKS = {**_MARKS, "__dataclass_params__": copy(_MARKS["__dataclass_params__"])}
_FROZEN_MARKS["__dataclass_params__"].frozen = True  # so that it takes ours for a frozen base
_FIELD = vars(_Sample)["__dataclass_fields__"]["field"]._field_type


def _dataclass(cls: type[Any] | None = None, /, **options: Any) -> Any:
    """`dataclasses.dataclass` with the same options."""
    if not (options.get("frozen") or options.get("slots")) or not _OPTIONS.issuperset(options):
        return dataclasses.dataclass(cls, **options) if cls is not None else dataclasses.dataclass(**options)
    return lambda wrapped: _made(wrapped, **options) if cls is None else _made(cls, **options)


def _made(
    plain: type[Any],
    *,
    frozen: bool = False,
    slots: bool = False,
    kw_only: bool = False,
    eq: bool = True,
    repr: bool = True,
) -> type[Any]:
    if any(dataclasses.is_dataclass(base) for base in plain.__mro__[1:]):
        raise TypeError(f"{plain.__name__}: a base is a dataclass; use dataclasses.dataclass here")
    known = _fields(plain, kw_only)
    added: dict[str, Any] = {"__setattr__": _refuse_set, "__delattr__": _refuse_delete} if frozen else {}
    if plain.__doc__ is None:
        added["__doc__"] = f"{plain.__name__}({', '.join(known)})"
    if repr:
        added["__repr__"] = _shown
    if eq:
        added |= _comparison(tuple(known.values()), frozen)
    if frozen and slots:  # where nothing can be set, copying and pickling need these
        added |= {"__getstate__": _get_state, "__setstate__": _set_state}
    # As in the standard library, what the class itself defines stays; an __eq__ of its own sets __hash__ to None.
    added = {name: value for name, value in added.items() if plain.__dict__.get(name) is None}
    by_place = tuple(one.name for one in known.values() if not one.kw_only)
    added |= {**(_FROZEN_MARKS if frozen else _MARKS), "__dataclass_fields__": known, "__match_args__": by_place}
    cls = _with_slots(plain, added) if slots else plain
    if not slots:
        for name, value in added.items():
            setattr(cls, name, value)
    if "__init__" not in plain.__dict__:
        cls.__init__ = _init(cls, tuple(known.values()), frozen, slots)
    return cls


def _with_slots(plain: type[Any], added: dict[str, Any]) -> type[Any]:
    """The same class anew, which is the only way to slots; with all that is added from the beginning, since each
    method that is set on a class later has its whole table looked through."""
    fields = tuple(added["__dataclass_fields__"])
    left_out = {*fields, "__dict__", "__weakref__"}
    kept = {name: value for name, value in plain.__dict__.items() if name not in left_out}
    content = {**kept, **added, "__qualname__": plain.__qualname__, "__slots__": fields}
    made: Callable[..., type[Any]] = type(plain)
    return made(plain.__name__, plain.__bases__, content)


def _fields(plain: type[Any], kw_only: bool) -> dict[str, Field[Any]]:
    """What `fields` is to find. The standard library looks into the text of each annotation four times for what is no
    field of an instance; here that is refused after one look."""
    kinds = plain.__annotations__
    said = " ".join(map(str, kinds.values()))
    if "ClassVar" in said or "InitVar" in said or "KW_ONLY" in said:
        raise TypeError(f"{plain.__name__}: each annotation is a field; use dataclasses.dataclass here")
    known: dict[str, Field[Any]] = {}
    for name, kind in kinds.items():
        default = plain.__dict__.get(name, MISSING)
        one: Any = default
        if not isinstance(default, Field):
            one = dataclasses.field(default=default)
        elif one.default is MISSING:
            delattr(plain, name)
        else:
            setattr(plain, name, one.default)
        if not one.init:
            raise TypeError(f"{plain.__name__}: __init__ takes every field; use dataclasses.dataclass here")
        if one.default.__class__.__hash__ is None:
            raise ValueError(f"{plain.__name__}: all would share the default of {name}; use field(default_factory=...)")
        one.name, one.type, one._field_type = name, kind, _FIELD
        if one.kw_only is MISSING:
            one.kw_only = kw_only
        known[name] = one
    return known


def _init(cls: type[Any], known: tuple[Field[Any], ...], frozen: bool, slots: bool) -> Callable[..., None]:
    """`__init__`, the one method whose signature must be written out: the code of its shape with the names
    put in."""
    ordered = sorted(known, key=lambda one: one.kw_only is True)  # stable: keyword-only ones last
    names = tuple(one.name for one in ordered)
    by_place = sum(not one.kw_only for one in ordered)
    made = tuple(i for i, one in enumerate(ordered) if one.default_factory is not MISSING)
    given = {one.name: _default(one) for one in ordered if _default(one) is not MISSING}
    may_lack = [name in given for name in names[:by_place]]
    if may_lack != sorted(may_lack):
        raise TypeError(f"{cls.__name__}: a field without a default stands behind one that has one")
    used: dict[str, Any] = {"made": _MADE, "put": object.__setattr__}
    for i, one in enumerate(ordered):
        if frozen:
            used[f"set{i}"] = cls.__dict__[one.name].__set__ if slots else one.name
        if i in made:
            used[f"make{i}"] = one.default_factory
    code = _shape(by_place, len(names), made, frozen, slots, hasattr(cls, "__post_init__"))
    called = dict(zip(code.co_varnames[1:], names, strict=True))
    attributes = tuple(called.get(name, name) for name in code.co_names)
    init = FunctionType(code.replace(co_varnames=("self", *names), co_names=attributes), used)
    init.__defaults__ = tuple(given[name] for name in names[:by_place] if name in given)
    init.__kwdefaults__ = {name: given[name] for name in names[by_place:] if name in given}
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {**{one.name: one.type for one in known}, "return": None}
    return init


def _default(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else _MADE


@cache
def _shape(by_place: int, count: int, made: tuple[int, ...], frozen: bool, slots: bool, then: bool) -> CodeType:
    """The code of every `__init__` that takes so many fields: compiling one takes a fifth of a millisecond, and
    two of three classes are like another one but for the names."""
    taken = [f"value{i}" for i in range(count)]
    body = []
    for i, value in enumerate(taken):
        given = f"make{i}() if {value} is made else {value}" if i in made else value
        if not frozen:
            body.append(f"self.{value} = {given}")
        else:
            body.append(f"set{i}(self, {given})" if slots else f"put(self, set{i}, {given})")
    if then:
        body.append("self.__post_init__()")
    if by_place < count:
        taken.insert(by_place, "*")
    found: dict[str, Any] = {}
    exec(f"def __init__({', '.join(['self', *taken])}):\n " + "\n ".join(body or ["pass"]), found)
    code: CodeType = found["__init__"].__code__
    return code


def _comparison(known: tuple[Field[Any], ...], frozen: bool) -> dict[str, Any]:
    compared = _values(tuple(one.name for one in known if one.compare))
    hashed = _values(tuple(one.name for one in known if (one.compare if one.hash is None else one.hash)))

    def __eq__(self: Any, other: object) -> Any:
        return compared(self) == compared(other) if type(other) is type(self) else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(hashed(self))

    return {"__eq__": __eq__, "__hash__": __hash__ if frozen else None}


def _refuse_set(self: Any, name: str, value: Any) -> None:
    if _is_own(self, name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_delete(self: Any, name: str) -> None:
    if _is_own(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_own(self: Any, name: str) -> bool:
    """Nothing may be set; but a plain subclass keeps what it adds to itself."""
    kind = type(self)
    return "__dataclass_fields__" in kind.__dict__ or name in kind.__dataclass_fields__


@recursive_repr()
def _shown(self: Any) -> str:
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({shown})"


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for one, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


def _values(names: tuple[str, ...]) -> Callable[[Any], Any]:
    """The values of these fields, in one call of C."""
    return attrgetter(*names) if names else lambda _: ()


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _dataclass

__all__ = ["dataclass"]
