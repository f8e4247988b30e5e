"""A `dataclass` decorator that makes frozen and slotted classes in a quarter of the time of the standard library.

Until Python 3.13 a frozen dataclass costs six calls of `exec`, a quarter of a millisecond. Ropewalk has dozens, and
they took half of its start. Here most methods are written once. `__init__` is generated when it is first called or
inspected, which most classes of a process never are; classes with the same number of fields share its code. The classes
behave like those of the standard library, and `fields`, `replace`, `asdict`, matching and pickling work. Making an
instance is faster. Type checkers see the standard decorator.

Annotations that are not fields, fields that `__init__` does not take, and a dataclass as a base are refused. A class
that is neither frozen nor slotted, or that uses other options, is passed to the standard library.
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
    """Replaces, in a signature, a default that is made for each instance."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()
_OPTIONS = frozenset(("frozen", "slots", "kw_only", "eq", "repr"))


@dataclasses.dataclass(init=False, repr=False, eq=False)
class _Sample:
    """A dataclass of the standard library, to copy the marks by which it recognises dataclasses."""

    field: Any


_MARKS: dict[str, Any] = {  # copy.replace of Python 3.13 needs __replace__
    name: vars(_Sample)[name] for name in ("__dataclass_params__", "__replace__") if name in vars(_Sample)
}
_FROZEN_MARKS = {**_MARKS, "__dataclass_params__": copy(_MARKS["__dataclass_params__"])}
_FROZEN_MARKS[
    "__dataclass_params__"
].frozen = True  # so that the standard library accepts these classes as frozen bases
_FIELD = vars(_Sample)["__dataclass_fields__"]["field"]._field_type


def _dataclass(cls: type[Any] | None = None, /, **options: Any) -> Any:
    """Make a dataclass, with the options of `dataclasses.dataclass`."""
    if not (options.get("frozen") or options.get("slots")) or not _OPTIONS.issuperset(options):
        return dataclasses.dataclass(cls, **options) if cls is not None else dataclasses.dataclass(**options)
    return lambda wrapped: _process(wrapped, **options) if cls is None else _process(cls, **options)


def _process(
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
    fields_by_name = _fields(plain, kw_only)
    added: dict[str, Any] = {"__setattr__": _refuse_set, "__delattr__": _refuse_delete} if frozen else {}
    if plain.__doc__ is None:
        added["__doc__"] = f"{plain.__name__}({', '.join(fields_by_name)})"
    if repr:
        added["__repr__"] = _repr
    if eq:
        added |= _comparison(tuple(fields_by_name.values()), frozen)
    if frozen and slots:  # copying and pickling cannot set attributes then
        added |= {"__getstate__": _get_state, "__setstate__": _set_state}
    # As in the standard library, what the class itself defines stays; an __eq__ of its own sets __hash__ to None.
    added = {name: value for name, value in added.items() if plain.__dict__.get(name) is None}
    positional = tuple(field.name for field in fields_by_name.values() if not field.kw_only)
    added |= {
        **(_FROZEN_MARKS if frozen else _MARKS),
        "__dataclass_fields__": fields_by_name,
        "__match_args__": positional,
    }
    cls = _with_slots(plain, added) if slots else plain
    if not slots:
        for name, value in added.items():
            setattr(cls, name, value)
    if "__init__" not in plain.__dict__:
        _defer_init(cls, tuple(fields_by_name.values()), frozen, slots)
    return cls


def _with_slots(plain: type[Any], added: dict[str, Any]) -> type[Any]:
    """Make the class again, which is the only way to add slots."""

    # It gets everything from the beginning, because Python scans the whole table of a class for each method that is set
    # later.
    fields = tuple(added["__dataclass_fields__"])
    left_out = {*fields, "__dict__", "__weakref__"}
    unchanged = {name: value for name, value in plain.__dict__.items() if name not in left_out}
    content = {**unchanged, **added, "__qualname__": plain.__qualname__, "__slots__": fields}
    metaclass: Callable[..., type[Any]] = type(plain)
    return metaclass(plain.__name__, plain.__bases__, content)


def _fields(plain: type[Any], kw_only: bool) -> dict[str, Field[Any]]:
    """Return the fields of a class by name."""

    # The standard library searches the text of each annotation four times for kinds that are not instance fields; here
    # they are refused after one search.
    # One search over all annotations is enough for classes without special ones.
    kinds = plain.__annotations__
    annotations = " ".join(map(str, kinds.values()))
    if "ClassVar" in annotations or "InitVar" in annotations or "KW_ONLY" in annotations:
        raise TypeError(
            f"{plain.__name__}: ClassVar, InitVar and KW_ONLY are not supported here; use dataclasses.dataclass"
        )
    fields_by_name: dict[str, Field[Any]] = {}
    for name, kind in kinds.items():
        default = plain.__dict__.get(name, MISSING)
        field_: Any = default
        if not isinstance(default, Field):
            field_ = dataclasses.field(default=default)
        elif field_.default is MISSING:
            delattr(plain, name)
        else:
            setattr(plain, name, field_.default)
        if not field_.init:
            raise TypeError(f"{plain.__name__}: __init__ takes every field; use dataclasses.dataclass here")
        if field_.default.__class__.__hash__ is None:
            raise ValueError(f"{plain.__name__}: mutable default for {name}; use field(default_factory=...)")
        field_.name, field_.type, field_._field_type = name, kind, _FIELD
        if field_.kw_only is MISSING:
            field_.kw_only = kw_only
        fields_by_name[name] = field_
    return fields_by_name


def _defer_init(cls: type[Any], fields_: tuple[Field[Any], ...], frozen: bool, slots: bool) -> None:
    """Give the class an `__init__` that replaces itself by the generated one when it is first called."""
    may_lack = [_default(field_) is not MISSING for field_ in fields_ if not field_.kw_only]
    if may_lack != sorted(may_lack):
        raise TypeError(f"{cls.__name__}: a field without a default comes after one with a default")

    def complete() -> Callable[..., None]:
        init: Callable[..., None]
        init = cls.__init__ = _init(cls, fields_, frozen, slots)
        return init

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        complete()(self, *args, **kwargs)

    __init__.complete = complete  # type: ignore[attr-defined]
    cls.__init__ = __init__
    cls.__signature__ = _SIGNATURE


class _DeferredSignature:
    """Completes the `__init__` of a class that is inspected; then the signature is the usual one."""

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        complete = getattr(owner.__init__, "complete", None)
        if complete is not None:
            complete()
        raise AttributeError("__signature__")  # `inspect.signature` goes on to `__init__`


_SIGNATURE = _DeferredSignature()


def _init(cls: type[Any], fields_: tuple[Field[Any], ...], frozen: bool, slots: bool) -> Callable[..., None]:
    """Make `__init__`, the only method that needs generated code: the code for this number of fields, with the names
    put in.
    """
    ordered = sorted(fields_, key=lambda field_: field_.kw_only is True)  # stable: keyword-only ones last
    names = tuple(field_.name for field_ in ordered)
    positional = sum(not field_.kw_only for field_ in ordered)
    factories = tuple(i for i, field_ in enumerate(ordered) if field_.default_factory is not MISSING)
    defaults = {field_.name: _default(field_) for field_ in ordered if _default(field_) is not MISSING}
    namespace: dict[str, Any] = {"made": _FACTORY, "put": object.__setattr__}
    for i, field_ in enumerate(ordered):
        if frozen:
            namespace[f"set{i}"] = cls.__dict__[field_.name].__set__ if slots else field_.name
        if i in factories:
            namespace[f"make{i}"] = field_.default_factory
    # The cached code uses placeholders for the names of parameters and attributes.
    code = _code_template(positional, len(names), factories, frozen, slots, hasattr(cls, "__post_init__"))
    names_by_placeholder = dict(zip(code.co_varnames[1:], names, strict=True))
    attributes = tuple(names_by_placeholder.get(name, name) for name in code.co_names)
    init = FunctionType(code.replace(co_varnames=("self", *names), co_names=attributes), namespace)
    init.__defaults__ = tuple(defaults[name] for name in names[:positional] if name in defaults)
    init.__kwdefaults__ = {name: defaults[name] for name in names[positional:] if name in defaults}
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {**{field_.name: field_.type for field_ in fields_}, "return": None}
    return init


def _default(field_: Field[Any]) -> Any:
    return field_.default if field_.default_factory is MISSING else _FACTORY


@cache
def _code_template(
    positional: int, count: int, factories: tuple[int, ...], frozen: bool, slots: bool, has_post_init: bool
) -> CodeType:
    """Return the code of every `__init__` with this number of fields."""

    # Compiling takes a fifth of a millisecond, and two of three classes differ from another one only in their names.
    parameters = [f"value{i}" for i in range(count)]
    body = []
    for i, value in enumerate(parameters):
        source = f"make{i}() if {value} is made else {value}" if i in factories else value
        if not frozen:
            body.append(f"self.{value} = {source}")
        else:
            body.append(f"set{i}(self, {source})" if slots else f"put(self, set{i}, {source})")
    if has_post_init:
        body.append("self.__post_init__()")
    if positional < count:
        parameters.insert(positional, "*")
    namespace: dict[str, Any] = {}
    exec(f"def __init__({', '.join(['self', *parameters])}):\n " + "\n ".join(body or ["pass"]), namespace)
    code: CodeType = namespace["__init__"].__code__
    return code


def _comparison(fields_: tuple[Field[Any], ...], frozen: bool) -> dict[str, Any]:
    compared = _values(tuple(field_.name for field_ in fields_ if field_.compare))
    hashed = _values(
        tuple(field_.name for field_ in fields_ if (field_.compare if field_.hash is None else field_.hash))
    )

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
    """Return True if the attribute is frozen; a plain subclass may set attributes that it adds itself."""
    kind = type(self)
    return "__dataclass_fields__" in kind.__dict__ or name in kind.__dataclass_fields__


@recursive_repr()
def _repr(self: Any) -> str:
    values = ", ".join(f"{field_.name}={getattr(self, field_.name)!r}" for field_ in fields(self) if field_.repr)
    return f"{type(self).__qualname__}({values})"


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field_.name) for field_ in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field_, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field_.name, value)


def _values(names: tuple[str, ...]) -> Callable[[Any], Any]:
    """Return a function that gets the values of these fields in one call of C."""
    return attrgetter(*names) if names else lambda _: ()


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _dataclass

__all__ = ["dataclass"]
