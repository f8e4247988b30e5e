"""The standard library's `dataclass`, with frozen classes made in a quarter of the time.

Until Python 3.13 a frozen dataclass costs six calls of `exec`, a quarter of a millisecond; this package has
dozens, and they were half of its start. Here one `exec` makes `__init__`, the other methods are
written once. What they do is the same, and `fields`, `replace`, `asdict`, matching and
pickling work as ever; making an instance is faster. Type checkers see the standard one.

Refused: fields that `__init__` does not take, and a frozen dataclass as a base. Whatever is not
frozen, or asks for more than these options, is handed to the standard library.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any


class _Made:
    """Stands in a signature for a default that is made for each instance."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Made()
_OPTIONS = frozenset(("frozen", "slots", "kw_only", "eq", "repr"))


def _dataclass(cls: type[Any] | None = None, /, **options: Any) -> Any:
    """`dataclasses.dataclass` with the same options."""
    if not options.get("frozen") or not _OPTIONS.issuperset(options):
        return dataclasses.dataclass(cls, **options) if cls is not None else dataclasses.dataclass(**options)
    return lambda wrapped: _frozen(wrapped, **options) if cls is None else _frozen(cls, **options)


def _frozen(
    plain: type[Any], *, frozen: bool, slots: bool = False, kw_only: bool = False, eq: bool = True, repr: bool = True
) -> type[Any]:
    if any(dataclasses.is_dataclass(base) for base in plain.__mro__[1:]):
        raise TypeError(f"{plain.__name__}: a base is a dataclass; use dataclasses.dataclass here")
    if plain.__doc__ is None:  # the standard library would parse a signature to make one
        plain.__doc__ = f"{plain.__name__}({', '.join(plain.__annotations__)})"
    cls: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(plain)
    cls.__dataclass_params__.frozen = frozen  # so that the standard library takes it for a base
    known = fields(cls)
    if not all(one.init for one in known):
        raise TypeError(f"{cls.__name__}: __init__ takes every field; use dataclasses.dataclass here")
    methods = {"__init__": _init(cls, known, slots), "__setattr__": _refuse_set, "__delattr__": _refuse_delete}
    if repr:
        methods["__repr__"] = _shown
    if eq:
        methods |= _comparison(known)
    if slots:  # where there is no __dict__, copying and pickling need these
        methods |= {"__getstate__": _get_state, "__setstate__": _set_state}
    for name, method in methods.items():
        # As in the standard library, what the class itself defines stays; an __eq__ of its own sets __hash__ to None.
        if plain.__dict__.get(name) is None:
            setattr(cls, name, method)
    return cls  # type: ignore[no-any-return]


def _init(cls: type[Any], known: tuple[Field[Any], ...], slots: bool) -> Callable[..., None]:
    """`__init__`, the one method whose signature must be written out."""
    names: dict[str, Any] = {"__set": object.__setattr__, "__made": _MADE}
    taken, body = ["self"], []
    starred = False
    for one in sorted(known, key=lambda one: one.kw_only is True):  # stable: keyword-only ones last
        name = one.name
        if one.kw_only and not starred:
            taken.append("*")
            starred = True
        given = name
        if one.default is not MISSING:
            names[f"__default_{name}"] = one.default
            taken.append(f"{name}=__default_{name}")
        elif one.default_factory is not MISSING:
            names[f"__make_{name}"] = one.default_factory
            taken.append(f"{name}=__made")
            given = f"__make_{name}() if {name} is __made else {name}"
        else:
            taken.append(name)
        if slots:
            names[f"__set_{name}"] = cls.__dict__[name].__set__
            body.append(f"__set_{name}(self, {given})")
        else:
            body.append(f"__set(self, {name!r}, {given})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    made: dict[str, Any] = {}
    exec(f"def __init__({', '.join(taken)}):\n " + "\n ".join(body or ["pass"]), names, made)
    init: Callable[..., None] = made["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {**{one.name: one.type for one in known}, "return": None}
    return init


def _comparison(known: tuple[Field[Any], ...]) -> dict[str, Any]:
    compared = _values(tuple(one.name for one in known if one.compare))
    hashed = _values(tuple(one.name for one in known if (one.compare if one.hash is None else one.hash)))

    def __eq__(self: Any, other: object) -> Any:
        return compared(self) == compared(other) if type(other) is type(self) else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(hashed(self))

    return {"__eq__": __eq__, "__hash__": __hash__}


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
