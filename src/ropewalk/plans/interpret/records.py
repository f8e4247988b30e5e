"""Dataclasses and named tuples without generated code."""

from __future__ import annotations

import copy
import operator
from collections import deque
from typing import Any, ClassVar, Final

from ...expr.python.evaluation import CALLABLE_TYPES, BuiltinFunction, Members
from ...expr.python.formatting import representation
from .instances import BASES, Instance, native_method
from .limits import measure

DATACLASS: Final = "dataclass"


class Field(Members):
    """`dataclasses.field(...)`: a default, or a function that makes one for each instance."""

    __slots__ = ("default", "factory", "is_compared", "is_initialised", "is_shown", "name")

    def __init__(
        self, default: Any, factory: Any, *, is_initialised: bool, is_shown: bool = True, is_compared: bool = True
    ) -> None:
        self.default, self.factory, self.name = default, factory, ""
        self.is_initialised, self.is_shown, self.is_compared = is_initialised, is_shown, is_compared

    def get_member(self, evaluation: Any, name: str) -> Any:
        """Return the name or the default."""
        return getattr(self, name) if name in ("name", "default") else super().get_member(evaluation, name)

    def value(self, evaluation: Any) -> Any:
        """Return the default of a new instance."""
        return self.default if self.factory is None else evaluation.call(self.factory, [], {})


MISSING: Final = object()


def field(
    evaluation: Any,
    *,
    default: Any = MISSING,
    default_factory: Any = None,
    init: bool = True,
    repr: bool = True,
    compare: bool = True,
    **options: Any,
) -> Field:
    """Return the description of a field."""
    return Field(default, default_factory, is_initialised=init, is_shown=repr, is_compared=compare)


def dataclass_of(evaluation: Any, kind: Any, options: dict[str, Any]) -> Any:
    """Give a class the methods of a dataclass."""
    fields: dict[str, Field] = dict(getattr(kind, "fields_", {}))
    for name in kind.annotations_:
        value = kind.__dict__.get(name, MISSING)
        fields[name] = value if isinstance(value, Field) else Field(value, None, is_initialised=True)
        fields[name].name = name
        if isinstance(value, Field):
            if value.default is MISSING:
                delattr(kind, name)
            else:
                setattr(kind, name, value.default)
        elif isinstance(value, (list, dict, set)):
            raise ValueError(f"mutable default {type(value)} for field {name} is not allowed: use default_factory")
    kind.fields_ = fields
    kind.frozen_ = bool(options.get("frozen"))
    names = [name for name, part in fields.items() if part.is_initialised]
    if "__init__" not in kind.__dict__ and options.get("init", True):
        _add(evaluation, kind, "__init__", _initialiser(kind, names, is_keyword_only=bool(options.get("kw_only"))))
    if "__repr__" not in kind.__dict__ and options.get("repr", True):
        _add(evaluation, kind, "__repr__", _shown)
    if "__eq__" not in kind.__dict__ and options.get("eq", True):
        _add(evaluation, kind, "__eq__", _compared(operator.eq))
        kind.__hash__ = None
        if options.get("frozen") or options.get("unsafe_hash"):
            _add(evaluation, kind, "__hash__", lambda evaluation, value: hash(_key(evaluation, value)))
    if options.get("order"):
        for name in ("lt", "le", "gt", "ge"):
            _add(evaluation, kind, f"__{name}__", _compared(getattr(operator, name)))
    return kind


def _add(evaluation: Any, kind: Any, name: str, run: Any) -> None:
    setattr(kind, name, native_method(evaluation, name, run))


def _initialiser(kind: Any, names: list[str], *, is_keyword_only: bool) -> Any:
    fields: dict[str, Field] = kind.fields_

    def initialise(evaluation: Any, self: Any, *arguments: Any, **keywords: Any) -> None:
        evaluation.step()
        evaluation.reserve(64 * len(fields))
        label = f"{type(self).__name__}.__init__()"
        most = 0 if is_keyword_only else len(names)
        if len(arguments) > most:
            count = len(arguments) + 1
            raise TypeError(f"{label} takes {most + 1} positional argument{'s' * (most > 0)} but {count} were given")
        values = dict(zip(names, arguments, strict=False))
        for name, value in keywords.items():
            if name not in names:
                raise TypeError(f"{label} got an unexpected keyword argument '{name}'")
            if name in values:
                raise TypeError(f"{label} got multiple values for argument '{name}'")
            values[name] = value
        missing = [n for n in names if n not in values and fields[n].default is MISSING and fields[n].factory is None]
        if missing:
            listed = ", ".join(map(repr, missing[:-1])) + (" and " if len(missing) > 1 else "") + repr(missing[-1])
            if len(missing) > 2:
                listed = ", ".join(map(repr, missing[:-1])) + ", and " + repr(missing[-1])
            several = "s" * (len(missing) > 1)
            raise TypeError(f"{label} missing {len(missing)} required positional argument{several}: {listed}")
        for name, part in fields.items():
            if name in values:
                self.__dict__[name] = values[name]
            elif part.default is not MISSING or part.factory is not None:
                self.__dict__[name] = part.value(evaluation)
        after = getattr(self, "__post_init__", None)
        if after is not None:
            after()

    return initialise


def _key(evaluation: Any, value: Any) -> tuple[Any, ...]:
    evaluation.step()
    return tuple(value.__dict__.get(name) for name, part in type(value).fields_.items() if part.is_compared)


def _shown(evaluation: Any, value: Any) -> str:
    shown = [
        f"{name}={representation(evaluation, value.__dict__.get(name))}"
        for name, part in type(value).fields_.items()
        if part.is_shown
    ]
    return f"{type(value).__qualname__}({', '.join(shown)})"


def _compared(compare: Any) -> Any:
    def run(evaluation: Any, value: Any, other: Any) -> Any:
        if type(other) is not type(value):
            return NotImplemented
        return compare(_key(evaluation, value), _key(evaluation, other))

    return run


def asdict(evaluation: Any, value: Any) -> Any:
    """Return a dataclass as a dict, its parts included."""
    evaluation.walk(value)
    if not hasattr(type(value), "fields_"):
        raise TypeError("asdict() should be called on dataclass instances")
    return _plain(value)


def _plain(value: Any) -> Any:
    if hasattr(type(value), "fields_"):
        return {name: _plain(value.__dict__.get(name)) for name in type(value).fields_}
    if isinstance(value, NamedTuple):
        return type(value)(*[_plain(item) for item in value])
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(item) for item in value)
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    return value


def astuple(evaluation: Any, value: Any) -> tuple[Any, ...]:
    """Return a dataclass as a tuple."""
    return tuple(_plain(value).values())


def replace(evaluation: Any, value: Any, /, **changes: Any) -> Any:
    """Return a copy of a dataclass with other values."""
    fields = type(value).fields_.items()
    kept = {name: value.__dict__.get(name) for name, part in fields if part.is_initialised}
    return type(value)(**{**kept, **changes})


def fields_of(evaluation: Any, value: Any) -> tuple[Field, ...]:
    """Return the fields of a dataclass or its instance."""
    return tuple(value.fields_.values())


class NamedTuple(tuple[Any, ...], Instance):
    """The base of named tuples."""

    names_: tuple[str, ...] = ()
    defaults_: ClassVar[dict[str, Any]] = {}

    def __new__(cls, *arguments: Any, **keywords: Any) -> NamedTuple:
        names = cls.names_
        if len(arguments) > len(names):
            count = f"{len(names) + 1} positional arguments but {len(arguments) + 1} were given"
            raise TypeError(f"{cls.__name__}.__new__() takes {count}")
        values = {**cls.defaults_, **dict(zip(names, arguments, strict=False)), **keywords}
        unknown = [name for name in keywords if name not in names]
        if unknown:
            raise TypeError(f"{cls.__name__}.__new__() got an unexpected keyword argument '{unknown[0]}'")
        missing = [repr(name) for name in names if name not in values]
        if missing:
            several = "s" * (len(missing) > 1)
            listed = " and ".join(missing)
            raise TypeError(
                f"{cls.__name__}.__new__() missing {len(missing)} required positional argument{several}: {listed}"
            )
        return super().__new__(cls, [values[name] for name in names])

    def get_member(self, evaluation: Any, name: str) -> Any:
        """Return a field, or a method of tuples."""
        if name in self.names_:
            return self[self.names_.index(name)]
        if name == "_asdict":
            return BuiltinFunction(name, lambda state: dict(zip(self.names_, self, strict=True)), evaluation)
        if name == "_replace":
            return BuiltinFunction(name, lambda state, **changes: self._changed(changes), evaluation)
        return super().get_member(evaluation, name) if name not in _CLASS else self.class_member(evaluation, name)

    def _changed(self, changes: dict[str, Any]) -> NamedTuple:
        values = [changes.pop(name, item) for name, item in zip(self.names_, self, strict=True)]
        if changes:
            raise ValueError(f"Got unexpected field names: {list(changes)!r}")
        return type(self)(*values)

    def set_member(self, evaluation: Any, name: str, item: Any) -> None:
        """Raise AttributeError: tuples do not change."""
        missing = f"'{type(self).__name__}' object has no attribute '{name}'"
        raise AttributeError("can't set attribute" if name in self.names_ else missing)

    @classmethod
    def class_member(cls, evaluation: Any, name: str) -> Any:
        """Return the fields of the class, their defaults, or a method."""
        if name == "_make":
            return BuiltinFunction(name, lambda state, values: cls(*state.collect(values)), evaluation)
        if name in _CLASS:
            return cls.names_ if name == "_fields" else dict(cls.defaults_)
        return super().class_member(evaluation, name)

    def __repr__(self) -> str:
        shown = [f"{name}={item!r}" for name, item in zip(self.names_, self, strict=True)]
        return f"{type(self).__name__}({', '.join(shown)})"


_CLASS: Final = ("_fields", "_field_defaults", "_make")
BASES.add(NamedTuple)


class SimpleNamespace(Instance):
    """`types.SimpleNamespace`: any attributes."""

    __slots__ = ("_evaluation",)

    def __init__(self, evaluation: Any, fields: dict[str, Any]) -> None:
        evaluation.reserve(64 * len(fields))
        self._evaluation = evaluation
        self.__dict__.update(fields)

    def __eq__(self, other: object) -> bool:
        self._evaluation.step()
        return isinstance(other, SimpleNamespace) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [f"{name}={representation(self._evaluation, item)}" for name, item in self.__dict__.items()]
        return f"namespace({', '.join(shown)})"


BASES.add(SimpleNamespace)
SimpleNamespace.__name__ = "types.SimpleNamespace"
CALLABLE_TYPES[SimpleNamespace] = lambda evaluation, **fields: SimpleNamespace(evaluation, fields)


def copied(evaluation: Any, value: Any) -> Any:
    """Return what `copy.copy` gives."""
    evaluation.reserve(
        64 * (1 + len(getattr(value, "__dict__", ())) + (len(value) if isinstance(value, _SIZED) else 0))
    )
    return copy.copy(value)


def deeply_copied(evaluation: Any, value: Any) -> Any:
    """Return what `copy.deepcopy` gives; values that are not data stay themselves."""
    evaluation.reserve(64 * measure(evaluation.budget, value))
    return copy.deepcopy(value)


_SIZED: Final = (list, dict, set, deque, tuple)


def named_tuple(name: str, names: list[str], defaults: dict[str, Any], others: Any = ()) -> type[NamedTuple]:
    """Return a class of named tuples with other members."""
    return type(name, (NamedTuple,), {**dict(others), "names_": tuple(names), "defaults_": defaults})


def named_tuple_function(evaluation: Any, name: str, names: Any, *, defaults: Any = ()) -> type[NamedTuple]:
    """Return what `collections.namedtuple` gives."""
    listed = names.replace(",", " ").split() if isinstance(names, str) else [str(item) for item in names]
    if not all(item.isidentifier() and not item.startswith("_") for item in listed):
        raise ValueError(f"Type names and field names must be valid identifiers: {listed!r}")
    values = list(defaults or ())
    return named_tuple(name, listed, dict(zip(listed[len(listed) - len(values) :], values, strict=True)))
