"""Classes of a program: plain classes, dataclasses, named tuples and exceptions.

They are classes of Python, made by `type(...)` from functions of the program, so that operators, iteration and `except`
treat them as Python does. A program reaches their members only through `member`, and never a name with two underscores.
"""

from __future__ import annotations

import ast
import copy
from typing import Any, Final

from ...expr.python.evaluation import BuiltinFunction, LocalFunction, Members
from ...expr.python.expressions import assign_target, expression
from ...expr.python.failures import EXCEPTIONS
from ...expr.python.scope import Frame, Getter, Scope, Unsupported, annotations_of, bound_names
from ...expr.python.statements import Run
from ...expr.python.values import UNBOUND, Refused
from ..read.names import suspends
from .functions import made_function
from .records import DATACLASS, dataclass_of, named_tuple
from .scope import FunctionScope, hidden_slot, load_of, root_of, store_of
from .suspending import result_of

OPERATORS: Final = frozenset(
    f"__{name}__"
    for name in [
        *("init", "eq", "ne", "lt", "le", "gt", "ge", "hash", "repr", "str", "len", "bool", "iter", "next", "contains"),
        *("getitem", "setitem", "delitem", "call", "add", "sub", "mul", "truediv", "floordiv", "mod", "neg", "radd"),
        *("iadd", "and", "or", "post_init", "enter", "exit", "aenter", "aexit", "format"),
    ]
)
"""The methods with two underscores that a class may define."""


class Instance(Members):
    """The base of every class of a program."""

    def get_member(self, evaluation: Any, name: str) -> Any:
        """Return an attribute, a method bound to this value, or the value of a property."""
        own: dict[str, Any] = self.__dict__
        if name in own and not name.startswith("__"):
            return own[name]
        if name == "__class__":
            return type(self)
        if isinstance(self, BaseException) and name in ("args", "exceptions", "__cause__", "__context__"):
            return getattr(self, name)
        found = _in_classes(type(self).__mro__, name)
        if found is _MISSING or name.startswith("__"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return bound(evaluation, found, self)

    def set_member(self, evaluation: Any, name: str, item: Any) -> None:
        """Set an attribute."""
        evaluation.reserve(64)
        found = _in_classes(type(self).__mro__, name)
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
        enter, leave = (_in_classes(type(self).__mro__, name) for name in names)
        if enter is _MISSING or leave is _MISSING:
            return super().context(evaluation, is_async)

        async def entered() -> Any:
            value = enter.function(self)
            return await result_of(evaluation, value) if is_async else value

        async def left(error: BaseException | None) -> Any:
            value = leave.function(self, type(error) if error is not None else None, error, None)
            return await result_of(evaluation, value) if is_async else value

        return entered, left

    @classmethod
    def class_member(cls, evaluation: Any, name: str) -> Any:
        """Return a member of the class."""
        if name in ("__name__", "__qualname__"):
            return cls.__name__
        found = _in_classes(cls.__mro__, name)
        if found is _MISSING or (name.startswith("__") and name != "__init__"):
            raise AttributeError(f"type object '{cls.__name__}' has no attribute '{name}'")
        if isinstance(found, ClassMethod):
            return found.bind(evaluation, cls)
        return found.function if isinstance(found, (Method, StaticMethod)) else found

    @classmethod
    def set_class_member(cls, evaluation: Any, name: str, item: Any) -> None:
        """Set a member of the class."""
        if name in _OWN_MEMBERS or cls is Instance:
            raise AttributeError(f"cannot set '{name}' of type object '{cls.__name__}'")
        evaluation.reserve(64)
        setattr(cls, name, item)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object>"


_MISSING: Final = object()
_OWN_MEMBERS: Final = frozenset(("annotations_", "fields_", "frozen_"))
"""Facts about a class that are not members for its program."""


def _in_classes(classes: tuple[type[Any], ...], name: str) -> Any:
    if name in _OWN_MEMBERS:
        return _MISSING
    for kind in classes:
        if name in kind.__dict__ and issubclass(kind, Instance) and kind is not Instance:
            return kind.__dict__[name]
    return _MISSING


class Method:
    """A function in a class: called by Python with the instance first."""

    __slots__ = ("function",)

    def __init__(self, function: Any) -> None:
        self.function = function

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        return self.function if instance is None else lambda *args, **kwargs: self.function(instance, *args, **kwargs)


class StaticMethod:
    """A function of a class that takes no instance."""

    __slots__ = ("function",)

    def __init__(self, function: Any) -> None:
        self.function = function


class ClassMethod:
    """A function of a class that takes the class first."""

    __slots__ = ("function",)

    def __init__(self, function: Any) -> None:
        self.function = function

    def bind(self, evaluation: Any, kind: type[Any]) -> BuiltinFunction:
        """Return the function for a class."""
        return BuiltinFunction(
            "method", lambda evaluation, *values, **named: self.function(kind, *values, **named), evaluation
        )


class Property:
    """A computed member."""

    __slots__ = ("getter", "setter")

    def __init__(self, getter: Any, setter: Any = None) -> None:
        self.getter, self.setter = getter, setter


def bound(evaluation: Any, found: Any, instance: Any) -> Any:
    """Return a member of a class for an instance."""
    if isinstance(found, Method):
        return BoundMethod(found.function, instance, evaluation)
    if isinstance(found, StaticMethod):
        return found.function
    if isinstance(found, ClassMethod):
        return found.bind(evaluation, type(instance))
    return evaluation.call(found.getter, [instance], {}) if isinstance(found, Property) else found


class BoundMethod(Members):
    """A method of an instance as a function value."""

    __slots__ = ("__name__", "_function", "_instance", "evaluation")

    def __init__(self, function: Any, instance: Any, evaluation: Any) -> None:
        self._function, self._instance, self.evaluation = function, instance, evaluation
        self.__name__ = getattr(function, "__name__", "method")

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._function(self._instance, *arguments, **keywords)

    def __repr__(self) -> str:
        return f"<bound method {self.__name__}>"


BoundMethod.__name__ = "method"  # as messages name it


class Super(Members):
    """The value of `super()` in a method."""

    __slots__ = ("_instance", "_kind")

    def __init__(self, kind: type[Any], instance: Any) -> None:
        self._kind, self._instance = kind, instance

    def get_member(self, evaluation: Any, name: str) -> Any:
        """Return a method of the classes after this one."""
        order = type(self._instance).__mro__
        rest = order[order.index(self._kind) + 1 :]
        found = _in_classes(rest, name)
        if found is not _MISSING:
            return bound(evaluation, found, self._instance)
        if name in ("__init__", "__str__", "__repr__", "__eq__", "__post_init__"):
            native = getattr(super(self._kind, self._instance), name, None)
            if name == "__init__" and not isinstance(self._instance, BaseException):
                native = None
            return BuiltinFunction(name, lambda evaluation, *values: native(*values) if native else None, evaluation)
        raise AttributeError(f"'super' object has no attribute '{name}'")


def class_statement(node: ast.ClassDef, scope: Scope) -> Run:
    """Compile a class."""
    decorators = [_decorator(decorator, scope) for decorator in node.decorator_list]
    if node.keywords:
        raise Unsupported(node, "metaclasses and keywords of classes are not supported; write a plain class")
    bases = [_base(base, scope) for base in node.bases]
    # The body has names of its own, which its functions do not see; `·class` is for `super()`.
    # In a function, a name that the class binds is never that of the function, as in Python.
    inner = FunctionScope(bound_names(node.body) if root_of(scope).is_function else [], scope)
    inner.is_function, inner.is_class, inner.prefix = False, True, f"{scope.prefix}{node.name}."
    _, class_slot = hidden_slot(scope)
    parts = [part for statement in node.body for part in _part(statement, inner, scope, class_slot)]
    bind = assign_target(store_of(node.name, node), scope)

    def run(frame: Frame) -> None:
        evaluation = frame[0]
        wrappers = [get(frame) for get in decorators]
        kinds = [get(frame) for get in bases]
        own = inner.new_frame(evaluation, frame, UNBOUND)
        namespace: dict[str, Any] = {}
        annotations: list[str] = []
        for part in parts:
            part(own, namespace, annotations)
        value = make_class(evaluation, node.name, kinds, namespace, annotations)
        if value is not dict:
            value.__qualname__ = inner.prefix[:-1]
        for wrap in reversed(wrappers):
            value = wrap(value)
        frame[class_slot] = value
        bind(frame, value)

    return run


_NAMED: Final = frozenset(("NamedTuple", "TypedDict", "Protocol", "ABC", "object", "Generic"))


def _base(node: ast.expr, scope: Scope) -> Any:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    if name in _NAMED and (not isinstance(node, ast.Name) or scope.find(name) is None):
        return lambda frame: name
    if isinstance(node, (ast.Name, ast.Attribute)):
        get = expression(node, scope)

        def base(frame: Frame) -> Any:
            kind = get(frame)
            if isinstance(kind, type) and (issubclass(kind, Instance) or kind in EXCEPTIONS.values()):
                return kind
            raise Refused("a class can derive from a class of the program, an exception, NamedTuple or TypedDict")

        return base
    raise Unsupported(node, "this base class is not supported; write a plain class or an exception")


def _decorator(node: ast.expr, scope: Scope) -> Any:
    options: dict[str, Any] = {}
    name = node
    if isinstance(node, ast.Call):
        name = node.func
        options = {str(word.arg): word.value.value for word in node.keywords if isinstance(word.value, ast.Constant)}
    label = name.id if isinstance(name, ast.Name) else name.attr if isinstance(name, ast.Attribute) else ""
    if label == DATACLASS and (not isinstance(name, ast.Name) or scope.imports.get(label, "").startswith(DATACLASS)):
        return lambda frame: lambda kind: dataclass_of(frame[0], kind, options)
    get = expression(node, scope)

    def wrapper(frame: Frame) -> Any:
        function = get(frame)
        return lambda kind: frame[0].call(function, [kind], {})

    return wrapper


def _part(statement: ast.stmt, inner: Scope, scope: Scope, class_slot: int) -> list[Any]:
    """Return the closures that fill the namespace from one statement of a class."""
    if isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    ):
        return []
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return [_method(statement, inner, class_slot)]
    if suspends(statement):
        raise Unsupported(statement, "await in a class is not supported; assign the value to a name before it")
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [_field([statement.target.id], statement.value, inner, is_annotated=True)]
    if isinstance(statement, ast.Assign) and all(isinstance(target, ast.Name) for target in statement.targets):
        names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
        return [_field(names, statement.value, inner, is_annotated=False)]
    raise Unsupported(statement, "a class holds fields and functions only; write this statement before the class")


def _field(names: list[str], value: ast.expr | None, inner: Scope, *, is_annotated: bool) -> Any:
    if value is None:
        return lambda own, namespace, annotations: annotations.append(names[0])
    assigned = {name: _own_slot(inner, name) for name in bound_names([value])}  # by `:=`
    get = expression(value, inner)
    slots = {name: _own_slot(inner, name) for name in names}

    def fill(own: Frame, namespace: dict[str, Any], annotations: list[str]) -> None:
        if is_annotated:
            annotations.append(names[0])
        item = get(own)
        for name, slot in slots.items():
            own[slot] = item
            namespace[name] = Method(item) if isinstance(item, LocalFunction) else item
        for name, slot in assigned.items():
            if own[slot] is not UNBOUND:
                namespace[name] = own[slot]

    return fill


def _own_slot(inner: Scope, name: str) -> int:
    return inner.slots.setdefault(name, 2 + len(inner.slots))


def _method(node: Any, inner: Scope, class_slot: int) -> Any:
    name = node.name
    if name.startswith("__") and name not in OPERATORS:
        raise Unsupported(node, f"the method {name} is not supported")
    kinds = [ast.unparse(decorator) for decorator in node.decorator_list]
    plain = [kind for kind in kinds if kind not in _METHOD_KINDS and not kind.endswith(".setter")]
    if plain:
        raise Unsupported(node.decorator_list[0], "this decorator of a method is not supported; call it in the method")
    # Functions see the names around the class, not those of its body; their default values see both.
    assert inner.parent is not None
    method_scope = FunctionScope([], inner.parent)
    method_scope.class_slot = class_slot  # type: ignore[attr-defined]
    method_scope.prefix = inner.prefix
    new, defaults = _with_defaults(node, inner, method_scope)
    make = made_function(new, method_scope)
    computed = [expression(annotation, inner) for annotation in annotations_of(node)]
    slot = _own_slot(inner, name)

    def fill(own: Frame, namespace: dict[str, Any], annotations: list[str]) -> None:
        outer = method_scope.new_frame(own[0], own[1], None)
        for place, get in defaults:
            outer[place] = get(own)
        for get in computed:
            get(own)
        function = own[slot] = make(outer)
        if not kinds or kinds[0] in ("abstractmethod", "override", "abc.abstractmethod"):
            namespace[name] = Method(function)
        elif kinds[0].endswith(".setter"):
            namespace[name] = Property(namespace[name].getter, function)
        else:
            namespace[name] = _METHOD_KINDS[kinds[0]](function)

    return fill


def _with_defaults(node: Any, inner: Scope, method_scope: Scope) -> tuple[Any, list[tuple[int, Getter]]]:
    """Return a copy of a method whose default values are slots, and the closures that fill the slots."""
    new, slots = copy.copy(node), []
    new.args = copy.copy(node.args)

    def slot_of(default: Any) -> Any:
        if default is None:
            return None
        name, slot = hidden_slot(method_scope)
        slots.append((slot, expression(default, inner)))
        return load_of(name, default)

    new.args.defaults = [slot_of(default) for default in node.args.defaults]
    new.args.kw_defaults = [slot_of(default) for default in node.args.kw_defaults]
    return new, slots


_METHOD_KINDS: Final[dict[str, Any]] = {
    "property": Property,
    "functools.cached_property": Property,
    "cached_property": Property,
    "staticmethod": StaticMethod,
    "classmethod": ClassMethod,
    "abstractmethod": Method,
    "abc.abstractmethod": Method,
    "override": Method,
}


def make_class(evaluation: Any, name: str, bases: list[Any], namespace: dict[str, Any], annotations: list[str]) -> Any:
    """Return the class of a program."""
    if "TypedDict" in bases:
        return dict
    if "NamedTuple" in bases:
        return named_tuple(name, annotations, {key: namespace[key] for key in annotations if key in namespace})
    native = [base for base in bases if isinstance(base, type)]
    if any(kind in EXCEPTIONS.values() for kind in native):
        native = [Instance, *native]
    for operator in ("__str__", "__repr__"):
        if operator in namespace:
            namespace[operator] = _text_method(namespace[operator])
    if "__eq__" in namespace and "__hash__" not in namespace:
        namespace["__hash__"] = None
    if any(issubclass(kind, BaseException) for kind in native):
        namespace.setdefault("__repr__", BaseException.__repr__)
    return type(name, tuple(native) or (Instance,), {**namespace, "annotations_": annotations})


def _text_method(method: Method) -> Any:
    def shown(self: Any) -> Any:
        return method.function(self)

    return shown


def super_value(scope: Scope) -> Any:
    """Return the closure of `super()` in a method, None outside of one."""
    current, hops = scope, 0
    while current.parent is not None:
        slot = getattr(current.parent, "class_slot", None)
        if slot is not None:
            return _super_in(hops, slot)
        current, hops = current.parent, hops + 1
    return None


def _super_in(hops: int, slot: int) -> Any:
    def run(frame: Frame) -> Super:
        own = frame
        for _ in range(hops):
            own = own[1]
        return Super(own[1][1][slot], own[2])  # the method's frame; around it that of the class, then of its maker

    return run
