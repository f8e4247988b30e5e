"""Classes of a program: plain classes, dataclasses, named tuples and exceptions.

They are classes of Python, made by `type(...)` from functions of the program, so that operators, iteration and `except`
treat them as Python does. A program reaches their members only through `member`.
"""

from __future__ import annotations

import ast
import copy
import enum
import types
from collections import Counter, OrderedDict, UserDict, defaultdict, deque
from collections.abc import Sized
from typing import Any, Final

from ...expr.python.builtins import TYPE_NAMES
from ...expr.python.evaluation import BuiltinFunction, LocalFunction, Members
from ...expr.python.expressions import assign_target, expression, module_entry, module_path
from ...expr.python.failures import EXCEPTIONS
from ...expr.python.method_table import METHODS, STATIC_METHODS
from ...expr.python.modules import Constant
from ...expr.python.scope import Frame, Getter, Scope, Unsupported, bound_names
from ...expr.python.statements import Run
from ...expr.python.values import UNBOUND, Refused
from ..read.names import suspends
from .functions import annotation_parts, made_function
from .instances import (
    BASES,
    MISSING,
    CachedProperty,
    ClassMethod,
    Instance,
    Member,
    Method,
    Property,
    in_classes,
    native_method,
)
from .records import DATACLASS, dataclass_of, named_tuple
from .scope import FunctionScope, hidden_slot, load_of, root_of, store_of

_BINARY: Final = "add sub mul truediv floordiv mod pow lshift rshift and or xor".split()  # noqa: SIM905
_OTHERS: Final = (
    "init new eq ne lt le gt ge hash repr str format len bool iter next reversed contains missing getitem setitem "
    "delitem call getattr neg pos abs invert int float round post_init enter exit aenter aexit aiter anext"
)
SPECIAL: Final = frozenset(
    f"__{name}__" for name in (*(prefix + name for name in _BINARY for prefix in ("", "r", "i")), *_OTHERS.split())
)
"""The methods with two underscores that a class may define."""


# --- classes of the language from which programs derive ----------------------------------------------


def _enum(kind: Any) -> Any:
    """Return a class of `enum` whose members are instances of a class of the program."""
    texts = {"__repr__": enum.Enum.__repr__, "__str__": kind.__str__}
    made: Any = types.new_class(kind.__name__, (Instance, kind), {}, lambda namespace: namespace.update(texts))
    made._value_repr_ = kind._value_repr_
    BASES.add(made)
    return made


ENUMS: Final = {kind.__name__: _enum(kind) for kind in (enum.Enum, enum.IntEnum, enum.StrEnum, enum.Flag, enum.IntFlag)}
_CONTAINERS: Final = (dict, list, deque, Counter, OrderedDict, defaultdict, UserDict)
_TEXTS_AND_NUMBERS: Final = (str, int, float)
"""The types from which an Enum may derive."""
METHODS[UserDict] = METHODS[dict]


def _container(evaluation: Any, kind: type[Any]) -> type[Any]:
    """Return a class of containers as a class of the program; its methods are paid for."""
    names = [*METHODS[kind], *(name for name in SPECIAL - {"__new__"} if name in kind.__dict__), "__init__"]
    methods = {name: native_method(evaluation, name, _paid(kind, name)) for name in names if hasattr(kind, name)}
    return type(kind.__name__, (Instance, kind), methods)


def _paid(kind: type[Any], name: str) -> Any:
    native = getattr(kind, name)

    def run(evaluation: Any, value: Any, *arguments: Any, **named: Any) -> Any:
        arguments = tuple(evaluation.collect(part) if hasattr(part, "__next__") else part for part in arguments)
        sizes = [len(part) for part in arguments if isinstance(part, Sized) and not isinstance(part, str)]
        count = sum(sizes) + (0 if name == "__init__" else kind.__len__(value))
        evaluation.step(1 + count // 64)
        evaluation.reserve(64 * (1 + sum(sizes) + len(named)))
        return native(value, *arguments, **named)

    return run


def _new(evaluation: Any, kind: Any, *values: Any) -> Any:
    if not (isinstance(kind, type) and issubclass(kind, Instance)):
        raise TypeError("object.__new__(X): X must be a class of the program")
    return object.__new__(kind)


STATIC_METHODS[object] = {"__new__": _new}
for _kind in _TEXTS_AND_NUMBERS:
    STATIC_METHODS.setdefault(_kind, {})["__new__"] = lambda evaluation, kind, *values, native=_kind: native.__new__(
        kind, *values
    )


# --- classes of a program ----------------------------------------------------------------------------


class Super(Members):
    """The value of `super()` in a method."""

    __slots__ = ("_instance", "_kind")

    def __init__(self, kind: type[Any], instance: Any) -> None:
        self._kind, self._instance = kind, instance

    def get_member(self, evaluation: Any, name: str) -> Any:
        """Return a method of the classes after this one."""
        value = self._instance
        kind = value if isinstance(value, type) else type(value)
        found = in_classes(kind.__mro__[kind.__mro__.index(self._kind) + 1 :], name)
        if found is not MISSING:
            own = None if value is kind else value
            return found.__get__(own, kind) if isinstance(found, Member) else found
        if name == "__new__":
            return BuiltinFunction(name, _new, evaluation)
        if name in ("__init__", "__post_init__") and not isinstance(value, BaseException):
            return BuiltinFunction(name, lambda evaluation: None, evaluation)
        native = getattr(super(self._kind, value), name, None) if name in SPECIAL or name == "_missing_" else None
        if native is None:
            raise AttributeError(f"'super' object has no attribute '{name}'")
        return BuiltinFunction(name, lambda evaluation, *values: native(*values), evaluation)


def class_statement(node: ast.ClassDef, scope: Scope) -> Run:
    """Compile a class."""
    decorators = [_decorator(decorator, scope) for decorator in node.decorator_list]
    if any(word.arg != "total" for word in node.keywords):
        raise Unsupported(node, "metaclasses and keywords of classes are not supported; write a plain class")
    known = [_known_class(base, scope) for base in node.bases]
    if None not in known and not any(kind in ENUMS.values() for kind in known):
        for base, kind in zip(node.bases, known, strict=True):
            if kind in _TEXTS_AND_NUMBERS:
                raise Unsupported(base, _BASE_ADVICE)
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
    if isinstance(node, ast.Subscript):  # Generic[T]
        return _base(node.value, scope)
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    is_own = isinstance(node, ast.Name) and scope.find(name) is not None
    if name in _NAMED and not is_own:
        return lambda frame: name
    called = node.func if isinstance(node, ast.Call) else node
    if isinstance(called, ast.Name) and scope.imports.get(called.id) == "collections.namedtuple":
        is_own = True
    elif not isinstance(node, (ast.Name, ast.Attribute)) or not (is_own or _is_base(_known_class(node, scope))):
        raise Unsupported(node, _BASE_ADVICE)
    get = expression(node, scope)

    def base(frame: Frame) -> Any:
        kind = get(frame)
        if not _is_base(kind):
            raise Refused(_BASE_ADVICE)
        return kind

    return base


_BASE_ADVICE: Final = (
    "a class can derive from a class of the program, an exception, NamedTuple, TypedDict, Enum, dict, list or "
    "UserDict; hold other values in a field"
)


def _is_base(kind: Any) -> bool:
    if not isinstance(kind, type):
        return False
    return issubclass(kind, (Instance, BaseException)) or kind in _CONTAINERS or kind in _TEXTS_AND_NUMBERS


def _known_class(node: ast.expr, scope: Scope) -> Any:
    """Return the class of the language that a base names, if it names one."""
    path = module_path(node, scope)
    if isinstance(node, ast.Name):
        path = scope.imports.get(node.id)
        if scope.find(node.id) is not None:
            return None
        if path is None:
            return TYPE_NAMES.get(node.id) or EXCEPTIONS.get(node.id)
    entry = None if path is None else module_entry(path, scope)
    return entry.value if isinstance(entry, Constant) else None


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
        is_field = "ClassVar" not in ast.unparse(statement.annotation)
        return [_field([statement.target.id], statement.value, inner, is_annotated=is_field)]
    if isinstance(statement, ast.Assign) and all(isinstance(target, ast.Name) for target in statement.targets):
        names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
        return [_field(names, statement.value, inner, is_annotated=False)]
    raise Unsupported(statement, "a class holds fields and functions only; write this statement before the class")


def _field(names: list[str], value: ast.expr | None, inner: Scope, *, is_annotated: bool) -> Any:
    if value is None:
        return lambda own, namespace, annotations: annotations.extend(names * is_annotated)
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


_METHOD_KINDS: Final[dict[str, Any]] = {
    "property": Property,
    "cached_property": CachedProperty,
    "staticmethod": Member,
    "classmethod": ClassMethod,
    "abstractmethod": lambda function: function,
    "override": lambda function: function,
}
_FUNCTIONS_OF_CLASSES: Final = ("__new__", "_generate_next_value_")
"""The functions that Python calls without an instance."""


def _method(node: Any, inner: Scope, class_slot: int) -> Any:
    name = node.name
    if name.startswith("__") and name.endswith("__") and name not in SPECIAL:
        raise Unsupported(node, f"the method {name} is not supported; write a method with another name")
    # Functions see the names around the class, not those of its body; their default values see both.
    assert inner.parent is not None
    method_scope = FunctionScope([], inner.parent)
    method_scope.class_slot = class_slot  # type: ignore[attr-defined]
    method_scope.prefix = inner.prefix
    new, defaults = _with_defaults(node, inner, method_scope)
    make = made_function(new, method_scope)
    decorators = [_method_decorator(decorator, inner) for decorator in node.decorator_list]
    computed = annotation_parts(node, inner)
    slot = _own_slot(inner, name)

    def fill(own: Frame, namespace: dict[str, Any], annotations: list[str]) -> None:
        wrappers = [get(own, namespace) for get in decorators]
        outer = method_scope.new_frame(own[0], own[1], None)
        for place, get in defaults:
            outer[place] = get(own)
        for get in computed:
            get(own)
        value = make(outer)
        for wrap in reversed(wrappers):
            value = wrap(value)
        own[slot] = value
        namespace[name] = value if isinstance(value, Member) or name in _FUNCTIONS_OF_CLASSES else Method(value)

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


def _method_decorator(node: ast.expr, inner: Scope) -> Any:
    """Return the closure that gives the wrapper of a decorator of a method."""
    label = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    if label in _METHOD_KINDS and (not isinstance(node, ast.Name) or inner.find(label) is None):
        return lambda own, namespace: _METHOD_KINDS[label]
    if label == "setter" and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        name = node.value.id
        return lambda own, namespace: lambda value: Property(namespace[name].function, value)
    get = expression(node, inner)

    def wrapper(own: Frame, namespace: dict[str, Any]) -> Any:
        function = get(own)
        return lambda value: own[0].call(function, [value], {})

    return wrapper


def make_class(evaluation: Any, name: str, bases: list[Any], namespace: dict[str, Any], annotations: list[str]) -> Any:
    """Return the class of a program."""
    if "TypedDict" in bases:
        return dict
    if "NamedTuple" in bases:
        values = {key: namespace.pop(key) for key in annotations if key in namespace}
        return named_tuple(name, annotations, values, namespace)
    native = [base for base in bases if isinstance(base, type)]
    is_enum = any(issubclass(kind, enum.Enum) for kind in native)
    if not is_enum:
        if any(kind in _TEXTS_AND_NUMBERS for kind in native):
            raise TypeError(_BASE_ADVICE)
        native = [_container(evaluation, kind) if kind in _CONTAINERS else kind for kind in native]
    if native and not any(issubclass(kind, Instance) for kind in native) and not is_enum:
        native = [Instance, *native]  # an exception
    if "__eq__" in namespace and "__hash__" not in namespace:
        namespace["__hash__"] = None
    if any(issubclass(kind, BaseException) for kind in native):
        namespace.setdefault("__repr__", BaseException.__repr__)
    facts = {} if is_enum else {"annotations_": annotations}
    kind: Any = types.new_class(name, tuple(native) or (Instance,), {}, lambda body: _fill(body, namespace))
    for key, value in facts.items():
        setattr(kind, key, value)
    return kind


def _fill(body: Any, namespace: dict[str, Any]) -> None:
    for name, value in namespace.items():
        if name not in ("__slots__", "__match_args__"):
            body[name] = value


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
