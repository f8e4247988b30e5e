"""Dataclasses and named tuples without generated code."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Final

from ...expr.python.evaluation import Members
from ...expr.python.formatting import representation

DATACLASS: Final = "dataclass"


class Field:
    """`dataclasses.field(...)`: a default, or a function that makes one for each instance."""

    __slots__ = ("default", "factory", "is_compared", "is_initialised", "is_shown")

    def __init__(
        self, default: Any, factory: Any, *, is_initialised: bool, is_shown: bool = True, is_compared: bool = True
    ) -> None:
        self.default, self.factory = default, factory
        self.is_initialised, self.is_shown, self.is_compared = is_initialised, is_shown, is_compared

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
        kind.__init__ = _initialiser(evaluation, kind, names, is_keyword_only=bool(options.get("kw_only")))
    if "__repr__" not in kind.__dict__ and options.get("repr", True):
        kind.__repr__ = lambda self: _shown(evaluation, self)
    if "__eq__" not in kind.__dict__ and options.get("eq", True):
        kind.__eq__ = lambda self, other: _key(self) == _key(other) if type(other) is type(self) else NotImplemented
        kind.__hash__ = (lambda self: hash(_key(self))) if options.get("frozen") else None
    if options.get("order"):
        _add_order(kind)
    return kind


def _initialiser(evaluation: Any, kind: Any, names: list[str], *, is_keyword_only: bool) -> Any:
    fields: dict[str, Field] = kind.fields_

    def initialise(self: Any, *arguments: Any, **keywords: Any) -> None:
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
        after = getattr(type(self), "__post_init__", None)
        if after is not None:
            after(self)

    return initialise


def _key(value: Any) -> tuple[Any, ...]:
    return tuple(value.__dict__.get(name) for name, part in type(value).fields_.items() if part.is_compared)


def _shown(evaluation: Any, value: Any) -> str:
    shown = [
        f"{name}={representation(evaluation, value.__dict__.get(name))}"
        for name, part in type(value).fields_.items()
        if part.is_shown
    ]
    return f"{type(value).__qualname__}({', '.join(shown)})"


def _add_order(kind: Any) -> None:
    def ordered(compare: Any) -> Any:
        return lambda self, other: compare(_key(self), _key(other)) if type(other) is type(self) else NotImplemented

    kind.__lt__ = ordered(lambda left, right: left < right)
    kind.__le__ = ordered(lambda left, right: left <= right)
    kind.__gt__ = ordered(lambda left, right: left > right)
    kind.__ge__ = ordered(lambda left, right: left >= right)


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
    """Return a copy of a dataclass or named tuple with other values."""
    if isinstance(value, NamedTuple):
        return type(value)(*[changes.pop(name, item) for name, item in zip(type(value).names_, value, strict=True)])
    unknown = changes.keys() - type(value).fields_.keys()
    if unknown:
        raise TypeError(f"{type(value).__name__}.__init__() got an unexpected keyword argument '{min(unknown)}'")
    made = copy.copy(value)
    made.__dict__.update(changes)
    return made


class NamedTuple(tuple[Any, ...], Members):
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
        from ...expr.python.evaluation import BuiltinFunction
        from ...expr.python.operations import bound_method

        if name in self.names_:
            return self[self.names_.index(name)]
        if name == "_asdict":
            return BuiltinFunction(name, lambda state: dict(zip(self.names_, self, strict=True)), evaluation)
        if name == "_replace":
            return BuiltinFunction(name, lambda state, **changes: replace(state, self, **changes), evaluation)
        if name == "_fields":
            return self.names_
        return bound_method(evaluation, self, name)

    @classmethod
    def class_member(cls, evaluation: Any, name: str) -> Any:
        """Return the fields of the class."""
        if name == "_fields":
            return cls.names_
        return cls.__name__ if name == "__name__" else super().class_member(evaluation, name)

    def __repr__(self) -> str:
        shown = [f"{name}={item!r}" for name, item in zip(self.names_, self, strict=True)]
        return f"{type(self).__name__}({', '.join(shown)})"


def named_tuple(name: str, names: list[str], defaults: dict[str, Any]) -> type[NamedTuple]:
    """Return a class of named tuples."""
    return type(name, (NamedTuple,), {"names_": tuple(names), "defaults_": defaults})


def named_tuple_function(evaluation: Any, name: str, names: Any, *, defaults: Any = ()) -> type[NamedTuple]:
    """Return what `collections.namedtuple` gives."""
    listed = names.replace(",", " ").split() if isinstance(names, str) else [str(item) for item in names]
    if not all(item.isidentifier() and not item.startswith("_") for item in listed):
        raise ValueError(f"Type names and field names must be valid identifiers: {listed!r}")
    values = list(defaults or ())
    return named_tuple(name, listed, dict(zip(listed[len(listed) - len(values) :], values, strict=True)))
