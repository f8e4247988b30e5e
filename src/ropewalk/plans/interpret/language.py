"""The language of programs: the tables of `expr/python`, and what plans have in addition."""

from __future__ import annotations

import ast
import datetime
import enum
import functools
import re
import uuid
from collections import UserDict
from typing import Any, Final

from ...expr.python.builtins import FUNCTIONS, TYPE_NAMES
from ...expr.python.evaluation import CALLABLE_TYPES, BuiltinFunction, Evaluation, Function, Members
from ...expr.python.expressions import expression, module_entry, module_path
from ...expr.python.failures import EXCEPTIONS, CancelledError, ProgramExit
from ...expr.python.method_table import STATIC_METHODS
from ...expr.python.modules import MODULES, Constant
from ...expr.python.operations import member, set_member
from ...expr.python.regex import FLAGS, Pattern
from ...expr.python.scope import Getter, Language, Scope, Unsupported
from ...expr.python.statements import Run
from ...expr.python.values import Refused
from ..read import imports
from ..read.overlap import START
from ..read.tools import LANGUAGE_NAMES
from . import calls, classes, concurrency, locks, numbers, queues, records, tables
from .contexts import CONTEXTS
from .functions import AsyncFunction, function, generator_expression
from .futures import Coroutine, Future, InvalidStateError
from .instances import CachedProperty, Instance
from .library import LIBRARY
from .scope import root_of
from .statements import nothing, plain_if, try_star

PLANS: Final = Language()
PLANS.has_classes = True
PLANS.members |= {*classes.SPECIAL, "__cause__", "__context__", "__notes__", "__members__", "__self__", "__wrapped__"}
CALLABLE_TYPES[object] = lambda evaluation: object()


# --- names -----------------------------------------------------------------------------------------


def _builtin(name: str, run: Any) -> Getter:
    return lambda frame: BuiltinFunction(name, run, frame[0])


def now(evaluation: Evaluation, zone: Any = datetime.UTC) -> datetime.datetime:
    """Return the time, with its zone."""
    return datetime.datetime.fromtimestamp(evaluation.clock("now"), datetime.UTC).astimezone(zone)


def _naive(evaluation: Evaluation, tz: Any = None) -> datetime.datetime:
    moment = now(evaluation, datetime.UTC if tz is None else tz)
    return moment.replace(tzinfo=None) if tz is None else moment


def _today(evaluation: Evaluation) -> datetime.date:
    return now(evaluation).date()


def _from_timestamp(evaluation: Evaluation, seconds: Any, tz: Any = None) -> datetime.datetime:
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC if tz is None else tz)
    return moment.replace(tzinfo=None) if tz is None else moment


def _add_clock(kind: type[Any], functions: dict[str, Any]) -> None:
    STATIC_METHODS.setdefault(kind, {}).update(functions)


_add_clock(datetime.datetime, {"now": _naive, "utcnow": _naive, "today": _naive, "fromtimestamp": _from_timestamp})
_add_clock(datetime.datetime, {"utcfromtimestamp": lambda evaluation, seconds: _from_timestamp(evaluation, seconds)})
_add_clock(
    datetime.date,
    {"today": _today, "fromtimestamp": lambda evaluation, seconds: _from_timestamp(evaluation, seconds).date()},
)


class Uuid(uuid.UUID, Members):
    """A random id of a program."""

    def get_member(self, evaluation: Any, name: str) -> Any:
        """Return the id in another form."""
        if name not in ("hex", "int", "version", "urn"):
            raise AttributeError(f"'UUID' object has no attribute '{name}'")
        return getattr(self, name)


def new_uuid(evaluation: Any) -> Uuid:
    """Return an id made of the seed of the run."""
    return Uuid(int=evaluation.machine.random.getrandbits(128), version=4)


def _chance(name: str) -> Any:
    def choose(evaluation: Any, *values: Any, **options: Any) -> Any:
        chance = evaluation.machine.random
        if name in ("choice", "choices", "sample") and values:
            values = evaluation.collect(values[0]), *values[1:]
        count = options.get("k", values[1] if name == "sample" and len(values) > 1 else 0)
        if isinstance(count, int):
            evaluation.reserve(64 * count)
            evaluation.step(max(count, 0))
        return getattr(chance, name)(*values, **options)

    return choose


_CHANCES: Final = "random uniform randint randrange choice choices sample shuffle gauss normalvariate triangular seed"

calls.GLOBALS.update(
    {
        "now": _builtin("now", now),
        "uuid": _builtin("uuid", lambda evaluation: str(new_uuid(evaluation))),
        START: _builtin(START, concurrency.create_task),
        "random": _builtin("random", _chance("random")),
        "ExceptionGroup": lambda frame: ExceptionGroup,
        "BaseExceptionGroup": lambda frame: BaseExceptionGroup,
        "SystemExit": lambda frame: ProgramExit,
        "exit": _builtin("exit", lambda evaluation, code=None: _exit(code)),
        "quit": _builtin("quit", lambda evaluation, code=None: _exit(code)),
        "hash": _builtin("hash", lambda evaluation, value: _refused("hash is not the same in every process")),
        "object": lambda frame: object,
        "NotImplemented": lambda frame: NotImplemented,
    }
)


def _refused(message: str) -> Any:
    raise Refused(message)


def _exit(code: Any) -> Any:
    raise ProgramExit(code)


def _getattr(evaluation: Any, value: Any, name: Any, *default: Any) -> Any:
    try:
        return member(evaluation, value, name)
    except (AttributeError, KeyError):
        if default:
            return default[0]
        raise


def _hasattr(evaluation: Any, value: Any, name: Any) -> bool:
    missing = object()
    return _getattr(evaluation, value, name, missing) is not missing


def _setattr(evaluation: Any, value: Any, name: Any, item: Any) -> None:
    set_member(evaluation, value, name, item)


_MEMBERS: Final[dict[str, Any]] = {"getattr": _getattr, "hasattr": _hasattr, "setattr": _setattr}


# --- calls and statements --------------------------------------------------------------------------


def _call(node: ast.Call, scope: Scope) -> Getter:
    if isinstance(node.func, ast.Name) and node.func.id == "super" and scope.find("super") is None:
        made = classes.super_value(scope)
        if made is None or node.args:
            raise Unsupported(node, "super() without arguments is for methods of a class")
        return made  # type: ignore[no-any-return]
    if isinstance(node.func, ast.Name) and node.func.id in _MEMBERS and scope.find(node.func.id) is None:
        return _member_call(node, scope)
    _check_call(node, scope)
    return calls.call(node, scope)


def _check_call(node: ast.Call, scope: Scope) -> None:
    """Refuse a call of `re` whose pattern cannot be used, and the call of an Enum."""
    path = module_path(node.func, scope)
    if isinstance(node.func, ast.Name) and scope.find(node.func.id) is None:
        path = scope.imports.get(node.func.id)
    if path is not None and path.startswith("enum.") and path[5:] in classes.ENUMS:
        raise Unsupported(node, f"a call of {path} is not supported; write a class: class Name({path[5:]})")
    first = node.args[0] if node.args else None
    if path is None or not path.startswith("re.") or not isinstance(first, ast.Constant) or path == "re.escape":
        return
    others = [*node.args[1:], *(word.value for word in node.keywords if word.arg == "flags")]
    flags = [value for value in (_flags(other, scope) for other in others) if value is not None]
    if isinstance(first.value, str):
        try:
            Pattern(first.value, flags[0] if flags else 0)
        except Refused as error:
            raise Unsupported(first, str(error)) from None
        except re.error as error:
            raise Unsupported(first, f"the pattern {first.value!r} is not valid: {error}") from None


def _flags(node: ast.expr, scope: Scope) -> int | None:
    """Return the flags that an expression such as `re.I | re.M` names, None for any other one."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        left, right = _flags(node.left, scope), _flags(node.right, scope)
        return None if left is None or right is None else left | right
    path = module_path(node, scope) or (scope.imports.get(node.id) if isinstance(node, ast.Name) else None)
    found = None if path is None or not path.startswith("re.") else FLAGS.get(path[3:])
    return found if isinstance(found, int) else None


def _member_call(node: ast.Call, scope: Scope) -> Getter:
    """Compile `getattr(value, "name")` and the like, whose name must be a literal."""
    name = node.args[1] if len(node.args) > 1 else None
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        raise Unsupported(node, "the name must be a text such as 'id'; for a computed one write value[name] or a dict")
    scope.language.check_member(ast.copy_location(ast.Attribute(node.args[0], name.value), node))
    assert isinstance(node.func, ast.Name)
    run = _MEMBERS[node.func.id]
    parts = [expression(part, scope) for part in node.args]
    return lambda frame: run(frame[0], *[part(frame) for part in parts])


def _import(node: Any, scope: Scope) -> Run:
    root = root_of(scope)
    for alias in node.names:
        if isinstance(node, ast.Import):
            path = alias.name
            if path.split(".")[0] not in _ROOTS or (alias.asname and path not in KNOWN_MODULES):
                root.refuse(node, _unknown_module(path))
                root.unknown.add(alias.asname or path.split(".")[0])
                continue
            scope.imports[alias.asname or path.split(".")[0]] = path if alias.asname else path.split(".")[0]
            continue
        module = node.module or ""
        if node.level or module not in KNOWN_MODULES:
            root.refuse(node, _unknown_module("." * node.level + module))
            root.unknown.add(alias.asname or alias.name)
            continue
        if module not in _TYPING and module_entry(f"{module}.{alias.name}", scope) is None:
            root.report(calls.unknown_member(node, f"{module}.{alias.name}", scope))
            root.unknown.add(alias.asname or alias.name)
            continue
        scope.imports[alias.asname or alias.name] = f"{module}.{alias.name}"
    return nothing


_TYPING: Final = ("typing", "__future__", "collections.abc", "typing_extensions")


def _unknown_module(name: str) -> str:
    if name.partition(".")[0] == "ropewalk":
        return f"import of {name} is not supported; write {imports.IMPORTS.get(name, imports.IMPORTS[imports.PLANS])}"
    listed = ", ".join(sorted(module for module in KNOWN_MODULES if not module.startswith("_")))
    return f"import of {name} is not supported; call a tool, or use one of {listed}"


PLANS.expressions.update(
    {
        ast.Attribute: calls.attribute,
        ast.Call: _call,
        ast.GeneratorExp: generator_expression,
        ast.Name: calls.name,
    }
)
PLANS.statements.update(
    {
        ast.AsyncFunctionDef: function,
        ast.ClassDef: classes.class_statement,
        ast.FunctionDef: function,
        ast.Global: lambda node, scope: nothing,
        ast.If: plain_if,
        ast.Import: _import,
        ast.ImportFrom: _import,
        ast.Nonlocal: lambda node, scope: nothing,
        ast.TryStar: try_star,
    }
)


# --- modules ---------------------------------------------------------------------------------------


def _partial(evaluation: Any, wrapped: Any, /, *values: Any, **named: Any) -> BuiltinFunction:
    def run(state: Any, *more: Any, **others: Any) -> Any:
        return state.call(wrapped, [*values, *more], {**named, **others})

    return BuiltinFunction("partial", run, evaluation, func=wrapped, args=values, keywords=named)


def _cached(evaluation: Any, wrapped: Any = None, /, maxsize: Any = None, typed: Any = False) -> Any:
    if not isinstance(wrapped, Function):
        return BuiltinFunction("lru_cache", _cached, evaluation)
    known: dict[Any, Any] = {}

    def run(state: Any, *values: Any, **named: Any) -> Any:
        key = values, tuple(sorted(named.items()))
        if key not in known:
            state.reserve(128)
            known[key] = state.call(wrapped, list(values), named)
        return known[key]

    clear = BuiltinFunction("cache_clear", lambda state: known.clear(), evaluation)
    return BuiltinFunction(wrapped.__name__, run, evaluation, cache_clear=clear, __wrapped__=wrapped)


def _wraps(evaluation: Any, wrapped: Any, *values: Any, **named: Any) -> BuiltinFunction:
    def wrap(state: Any, wrapper: Any) -> Any:
        if isinstance(wrapper, Function):
            wrapper.__name__ = getattr(wrapped, "__name__", wrapper.__name__)
            kept = getattr(wrapped, "attributes", None) or {}
            wrapper.attributes = {**(wrapper.attributes or {}), **kept, "__wrapped__": wrapped}
        return wrapper

    return BuiltinFunction("wraps", wrap, evaluation)


def _ordered(evaluation: Any, kind: Any) -> Any:
    if not (isinstance(kind, type) and issubclass(kind, Instance)):
        raise TypeError("total_ordering takes a class of the program")
    return functools.total_ordering(kind)


def _makes_coroutine(evaluation: Any, value: Any) -> bool:
    return isinstance(value, (AsyncFunction, calls.ToolFunction))


def _is_awaitable(evaluation: Any, value: Any) -> bool:
    return isinstance(value, (Coroutine, Future))


def _is_coroutine(evaluation: Any, value: Any) -> bool:
    return isinstance(value, Coroutine)


def _of_machine(kind: Any) -> Any:
    return lambda evaluation, *values, **named: kind(evaluation.machine, *values, **named)


def _bounded(evaluation: Any, value: int = 1) -> locks.Semaphore:
    return locks.Semaphore(evaluation.machine, value, limit=value)


_ASYNCIO: Final[dict[str, Any]] = {
    **{
        name: getattr(concurrency, name)
        for name in ("as_completed", "create_task", "ensure_future", "gather", "shield")
    },
    **{
        name: concurrency.coroutine_function(name, getattr(concurrency, name)) for name in ("sleep", "wait", "wait_for")
    },
    **{name: _of_machine(getattr(locks, name)) for name in ("Event", "Lock", "Semaphore")},
    **{name: _of_machine(getattr(queues, name)) for name in ("LifoQueue", "PriorityQueue", "Queue")},
    "TaskGroup": _of_machine(concurrency.TaskGroup),
    **{name: Constant(name) for name in ("ALL_COMPLETED", "FIRST_COMPLETED", "FIRST_EXCEPTION")},
    **{name: Constant(getattr(queues, name)) for name in ("QueueEmpty", "QueueFull")},
    "BoundedSemaphore": _bounded,
    "CancelledError": Constant(CancelledError),
    "InvalidStateError": Constant(InvalidStateError),
    "TimeoutError": Constant(TimeoutError),
    "iscoroutine": _is_coroutine,
    "iscoroutinefunction": _makes_coroutine,
    "current_task": lambda evaluation: evaluation.machine.current,
    "get_event_loop": _of_machine(concurrency.Loop),
    "get_running_loop": _of_machine(concurrency.Loop),
    "timeout": _of_machine(concurrency.Timeout),
    "timeout_at": concurrency.timeout_at,
    "run": lambda evaluation, *values, **named: _refused("asyncio.run is for the main part of a program"),
}
PLANS.modules.update(
    {
        "asyncio": _ASYNCIO,
        "collections": {"namedtuple": records.named_tuple_function, "UserDict": Constant(UserDict)},
        "csv": tables.CSV,
        "decimal": numbers.DECIMAL,
        "io": tables.IO,
        "zoneinfo": numbers.ZONES,
        **LIBRARY,
        "contextlib": CONTEXTS,
        "copy": {"copy": records.copied, "deepcopy": records.deeply_copied},
        "dataclasses": {
            "asdict": records.asdict,
            "astuple": records.astuple,
            "dataclass": lambda evaluation, kind=None, **options: records.dataclass_of(evaluation, kind, options),
            "field": records.field,
            "fields": records.fields_of,
            "is_dataclass": lambda evaluation, value: hasattr(value, "fields_"),
            "replace": records.replace,
        },
        "functools": {
            "cache": _cached,
            "lru_cache": _cached,
            "partial": _partial,
            "total_ordering": _ordered,
            "wraps": _wraps,
            "cached_property": Constant(CachedProperty),
        },
        "enum": {
            **{name: Constant(kind) for name, kind in classes.ENUMS.items()},
            "auto": lambda evaluation, *values: enum.auto(*values),
            "unique": lambda evaluation, kind: enum.unique(kind),
        },
        "inspect": {
            "isawaitable": _is_awaitable,
            "iscoroutine": _is_coroutine,
            "iscoroutinefunction": _makes_coroutine,
        },
        "types": {"SimpleNamespace": Constant(records.SimpleNamespace)},
        "abc": {"ABC": Constant("ABC"), "abstractmethod": lambda evaluation, wrapped: wrapped},
        "random": {name: _chance(name) for name in _CHANCES.split()},
        "time": {
            **{name: lambda evaluation: evaluation.clock("now") for name in ("time",)},
            **{name: lambda evaluation: evaluation.clock("monotonic") for name in ("monotonic", "perf_counter")},
            "sleep": lambda evaluation, seconds: _refused("time.sleep blocks; write await asyncio.sleep(...)"),
        },
        "uuid": {"uuid4": new_uuid},
        "sys": {"exit": lambda evaluation, code=None: _exit(code)},
    }
)
KNOWN_NAMES: Final = frozenset(
    (
        *FUNCTIONS,
        *TYPE_NAMES,
        *EXCEPTIONS,
        *calls.GLOBALS,
        *calls.QUESTIONS,
        *LANGUAGE_NAMES,
        *_MEMBERS,
        "__name__",
        "super",
    )
)
"""The names that every program knows."""
MODULE_NAMES: Final = frozenset((*MODULES, *PLANS.modules))
"""The modules that have functions for programs."""
KNOWN_MODULES: Final = MODULE_NAMES | frozenset(_TYPING)
_ROOTS: Final = frozenset(name.partition(".")[0] for name in KNOWN_MODULES)
