"""Instances of the classes of a program, and the members of these classes.

The classes are Python's, so that operators, iteration and `except` treat them as Python does. A program reaches their
members through `member`.
"""

from __future__ import annotations

import enum
from typing import Any, Final

from ...expr.python.evaluation import BuiltinFunction, Members
from ...expr.python.failures import kind_of
from ...expr.python.operations import bound_method, exception_field, type_member
from .suspending import result_of

MISSING: Final = object()


class Member:
    """A function in a class, as it is found through an instance or the class: this one as it is."""

    __slots__ = ("function",)

    def __init__(self, function: Any) -> None:
        self.function = function

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        return self.function


class Method(Member):
    """A function that takes the instance first."""

    __slots__ = ()

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        return self.function if instance is None else BoundMethod(self.function, instance)


class ClassMethod(Member):
    """A function that takes the class first."""

    __slots__ = ()

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        return BoundMethod(self.function, type(instance) if kind is None else kind)


class Property(Member):
    """A computed member."""

    __slots__ = ("setter",)

    def __init__(self, getter: Any, setter: Any = None) -> None:
        super().__init__(getter)
        self.setter = setter

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        return self if instance is None else self.function(instance)


class CachedProperty(Member):
    """A member that is computed at its first use."""

    __slots__ = ("_name",)

    def __set_name__(self, kind: Any, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self.function(instance)
        return value


class BoundMethod(Members):
    """A method of an instance as a function value."""

    __slots__ = ("_instance", "function")

    def __init__(self, function: Any, instance: Any) -> None:
        self.function, self._instance = function, instance

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.function(self._instance, *arguments, **keywords)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BoundMethod):
            return NotImplemented
        return self.function is other.function and self._instance is other._instance

    def __hash__(self) -> int:
        return hash(self.function)

    def get_member(self, evaluation: Any, name: str) -> Any:
        """Return a member of the function, or the instance."""
        return self._instance if name == "__self__" else self.function.get_member(evaluation, name)

    def __repr__(self) -> str:
        return f"<bound method {getattr(self.function, '__name__', 'method')}>"


BoundMethod.__name__ = "method"  # as messages name it


def native_method(evaluation: Any, name: str, run: Any) -> Method:
    """Return a method of the language, which takes the evaluation and the instance first."""
    return Method(BuiltinFunction(name, run, evaluation))


class Instance(Members):
    """The base of every class of a program."""

    def get_member(self, evaluation: Any, name: str) -> Any:
        """Return an attribute, a method bound to this value, or the value of a property."""
        own: dict[str, Any] = self.__dict__
        if name in own and not name.startswith("__"):
            return own[name]
        found = in_classes(type(self).__mro__, name)
        if found is not MISSING:
            return found.__get__(self, type(self)) if isinstance(found, Member) else found
        if isinstance(self, enum.Enum) and name in ("name", "value"):
            return own[f"_{name}_"]
        try:
            if isinstance(self, BaseException):
                return exception_field(evaluation, self, name)
            return bound_method(evaluation, self, name)
        except AttributeError:
            other = in_classes(type(self).__mro__, "__getattr__")
            if other is MISSING:
                raise
            return other.function(self, name)

    def set_member(self, evaluation: Any, name: str, item: Any) -> None:
        """Set an attribute."""
        evaluation.reserve(64)
        found = in_classes(type(self).__mro__, name)
        if isinstance(found, Property):
            if found.setter is None:
                raise AttributeError(f"property '{name}' of '{type(self).__name__}' object has no setter")
            evaluation.call(found.setter, [self, item], {})
        elif getattr(type(self), "frozen_", False):
            raise AttributeError(f"cannot assign to field '{name}'")
        else:
            self.__dict__[name] = item

    def delete_member(self, name: str) -> None:
        """Delete an attribute."""
        if name not in self.__dict__:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        del self.__dict__[name]

    def context(self, evaluation: Any, is_async: bool) -> tuple[Any, Any]:
        """Return the functions that enter and leave the `with` block of an instance."""
        names = ("__aenter__", "__aexit__") if is_async else ("__enter__", "__exit__")
        enter, leave = (in_classes(type(self).__mro__, name) for name in names)
        if enter is MISSING or leave is MISSING:
            return super().context(evaluation, is_async)

        async def entered() -> Any:
            value = enter.function(self)
            return await result_of(evaluation, value) if is_async else value

        async def left(error: BaseException | None) -> Any:
            value = leave.function(self, None if error is None else kind_of(error), error, None)
            return await result_of(evaluation, value) if is_async else value

        return entered, left

    @classmethod
    def class_member(cls, evaluation: Any, name: str) -> Any:
        """Return a member of the class."""
        if name in ("__name__", "__qualname__"):
            return cls.__name__
        if issubclass(cls, enum.Enum) and (name == "__members__" or name in cls.__members__):
            return dict(cls.__members__) if name == "__members__" else cls.__members__[name]
        found = in_classes(cls.__mro__, name)
        if found is MISSING:
            return type_member(evaluation, cls, name)
        return found.__get__(None, cls) if isinstance(found, Member) else found

    @classmethod
    def set_class_member(cls, evaluation: Any, name: str, item: Any) -> None:
        """Set a member of the class."""
        if name in _OWN_MEMBERS or cls in BASES:
            raise AttributeError(f"cannot set '{name}' of type object '{cls.__name__}'")
        evaluation.reserve(64)
        setattr(cls, name, item)

    __copy__ = __deepcopy__ = None  # type: ignore[assignment] # as of any object of Python

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object>"


BASES: Final[set[type[Any]]] = {Instance}
"""The classes of the language from which those of programs derive."""
_OWN_MEMBERS: Final = frozenset(("annotations_", "fields_", "frozen_"))
"""Facts about a class that are not members for its program."""


def in_classes(classes: tuple[type[Any], ...], name: str) -> Any:
    """Return what the first class of a program among these has by this name, or MISSING."""
    if name not in _OWN_MEMBERS:
        for kind in classes:
            if name in kind.__dict__ and issubclass(kind, Instance) and kind not in BASES:
                return kind.__dict__[name]
    return MISSING
