"""The surroundings of a plan: tools, inputs, local functions, imports, and which calls are effects.

An *effect* is an expression that touches the world: an awaited call, or a read of the clock or of chance. Statements
without one are *pure*; the longest run of them is a *piece*, which one node evaluates (`emit.py`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ...errors import Problem
from ...expr.python.builtins import FUNCTIONS, SETTLED, TYPE_NAMES
from ...expr.python.exits import EXIT_NAMES
from ...expr.python.failures import EXCEPTIONS
from ...expr.python.modules import MODULES
from ...fast_dataclass import dataclass
from ...values import Json, did_you_mean
from .facts import facts_of, nodes_by_type, walk

WORLD: Final[dict[str, str]] = {
    "now": "now",
    "datetime.now": "now",
    "datetime.utcnow": "now",
    "datetime.datetime.now": "now",
    "datetime.datetime.utcnow": "now",
    "date.today": "today",
    "datetime.date.today": "today",
    "time.time": "time",
    "uuid": "uuid",
    "uuid.uuid4": "uuid",
    "uuid4": "uuid",
    "random": "random",
    "random.random": "random",
    "value": "value",
}
"""Calls that read the clock, chance or the value of another run: each is a journaled step."""
LANGUAGE: Final = frozenset(("approve", "wait_for", "call_tool", "now", "uuid", "random", "input", "value"))
"""The functions of the language itself. They win over tools of the same name."""
WORLD_MODULES: Final = frozenset(("uuid", "random", "time"))
"""Modules of which only the calls in WORLD are known."""
CHOICES: Final = ("choice", "choices", "randint", "randrange", "sample", "uniform")
"""The functions of `random` that a program may call, in addition to `random.random`."""
ASYNCIO: Final = frozenset(
    ("sleep", "gather", "wait_for", "timeout", "create_task", "ensure_future", "run", "as_completed")
)
KNOWN: Final = frozenset((*FUNCTIONS, SETTLED, *EXIT_NAMES, *TYPE_NAMES, *EXCEPTIONS, *LANGUAGE, "__name__"))
"""The names that every program knows."""


_INLINED_NAME: Final = re.compile(r"\b_\w*·[0-9]+_")
FUNCTIONS_OF_PROGRAMS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


class PlanError(Exception):
    """One thing that is wrong with a plan, found where nothing after it can be compiled."""

    def __init__(self, node: ast.AST | int, message: str, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.line = node if isinstance(node, int) else getattr(node, "lineno", 1)
        self.column = 1 if isinstance(node, int) else getattr(node, "col_offset", 0) + 1
        # An inlined function's names carry its own: the reader knows only what the program says.
        self.message, self.suggestion = _INLINED_NAME.sub("", message), suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTool:
    """The facts that a plan needs to call a tool."""

    # Its id in the toolbox.
    id: str
    # The names of its parameters, in order.
    parameters: tuple[str, ...]
    # The parameters without which it cannot be called.
    required: tuple[str, ...] = ()
    # Whether a trusted hint says that it only reads.
    reads: bool = False
    # Whether each call waits for an approval that shows its arguments.
    approve: bool = False
    # Whether it takes no other parameters, though it may have none.
    closed: bool = False
    # The version of the tool that approvals of its calls name; "" for none.
    version: str = ""

    @classmethod
    def read(cls, entry: Mapping[str, Json]) -> PlanTool:
        """Return the tool of an entry in a document."""
        names = tuple(str(name) for name in entry.get("parameters") or ())
        required = tuple(str(name) for name in entry.get("required") or ())
        flags = {flag: entry.get(flag) is True for flag in ("reads", "approve", "closed")}
        version = str(entry.get("version") or "")
        return cls(id=str(entry["id"]), parameters=names, required=required, version=version, **flags)


class Checkpoint(NamedTuple):
    """The parts of a Program that change while statements are compiled."""

    name_count: int
    ids: dict[str, int]
    kept: dict[str, ast.expr]
    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef]


class Program:
    """A program while it is compiled."""

    # `tools`: Each tool by the name that programs use (`search`, `git.git_log`).
    # `functions`: The local functions that are defined so far.
    # `imports`: For each imported name the module, or `module.member`.
    # `names`: Every name that the program binds somewhere.
    # `kept`: Names that hold calls which are awaited later, with the call to make then (`concurrency.py`).
    # `semaphores`: For each name of a semaphore how many calls it lets through at once.

    def __init__(
        self,
        code: str,
        tree: ast.Module,
        tools: Mapping[str, PlanTool],
        inputs: Iterable[str],
        inside: bool,
    ) -> None:
        self.tools, self.inputs, self.inside = dict(tools), tuple(inputs), inside
        self.tree, self.nodes = tree, nodes_by_type(tree)
        self.functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self.imports = imported_names(self.all(ast.Import, ast.ImportFrom))
        self.names = self._bound_names()
        self.kept: dict[str, ast.expr] = {}
        self.semaphores = dict(self._semaphores())
        self.problems: list[Problem] = []
        self.prints = "print" not in self.names and any(node.id == "print" for node in self.all(ast.Name))
        # The name of the world call `random()`, whatever else the program calls random.
        self.chance = "random·"
        self.imports[self.chance] = "random"
        self._count = 0
        self._ids: dict[str, int] = {}
        known = {*self.tools, *self.imports, *LANGUAGE, *(node.name for node in self.all(*FUNCTIONS_OF_PROGRAMS))}
        self._pure_functions = KNOWN - known

    def all(self, *kinds: type[ast.AST]) -> Iterator[Any]:
        """Yield the nodes of the program that are of these kinds."""
        for kind in kinds:
            yield from self.nodes.get(kind, ())

    def _bound_names(self) -> set[str]:
        """Return every variable and parameter that the program binds in any function, without local functions."""
        names = {node.id for node in self.all(ast.Name) if isinstance(node.ctx, ast.Store)}
        names |= {node.arg for node in self.all(ast.arg)}
        names |= {node.name for node in self.all(ast.ExceptHandler, ast.MatchAs, ast.MatchStar) if node.name}
        return names | {node.rest for node in self.all(ast.MatchMapping) if node.rest}

    def _semaphores(self) -> Iterator[tuple[str, int]]:
        """Yield each `name = asyncio.Semaphore(limit)`."""
        for node in self.all(ast.Assign):
            if self.is_semaphore(node.value) and isinstance(node.targets[0], ast.Name):
                limit = node.value.args[0] if node.value.args else None
                if isinstance(limit, ast.Constant) and type(limit.value) is int and limit.value > 0:
                    yield node.targets[0].id, limit.value

    def is_semaphore(self, node: ast.expr | None) -> bool:
        """Return True for the making of a semaphore."""
        return isinstance(node, ast.Call) and self.path(node.func) in (
            "asyncio.Semaphore",
            "asyncio.BoundedSemaphore",
        )

    def fresh(self, hint: str) -> str:
        """Return a name that no program can contain."""
        self._count += 1
        return f"_{hint}·{self._count}"

    def node_id(self, hint: str, line: int) -> str:
        """Return the id of a node: what it does and its line, so that equal texts give equal paths in the journal."""
        base = f"{hint}_{line}"
        count = self._ids.get(base, 0)
        self._ids[base] = count + 1
        return base if not count else f"{base}_{count}"

    def checkpoint(self) -> Checkpoint:
        """Return what `restore` needs to compile a part again."""
        return Checkpoint(self._count, dict(self._ids), dict(self.kept), dict(self.functions))

    def restore(self, checkpoint: Checkpoint) -> None:
        """Forget what was compiled since `checkpoint`."""
        self._count, self._ids = checkpoint.name_count, dict(checkpoint.ids)
        self.kept, self.functions = dict(checkpoint.kept), dict(checkpoint.functions)

    # --- what a call is ------------------------------------------------------------------------

    def path(self, node: ast.expr) -> str:
        """Return what a call names, with imports resolved, such as `asyncio.gather`; "" for anything else."""
        if isinstance(node, ast.Name):
            if node.id in self.imports and node.id not in self.tools:
                return self.imports[node.id]
            return node.id
        if isinstance(node, ast.Attribute):
            head = self.path(node.value)
            return f"{head}.{node.attr}" if head else ""
        return ""

    def tool_name(self, node: ast.expr) -> str | None:
        """Return the name of the tool that a call names, if it names one."""
        if isinstance(node, ast.Name):
            is_tool = node.id in self.tools and node.id not in LANGUAGE and node.id not in self.names
            return node.id if is_tool else None
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id not in self.names:
            name = f"{node.value.id}.{node.attr}"
            return name if name in self.tools else None
        return None

    def world_call(self, node: ast.AST) -> str | None:
        """Return which world call (`now`, `uuid`, ...) an expression is."""
        if not isinstance(node, ast.Call):
            return None
        path = self.path(node.func)
        if path.split(".")[0] in self.names or (self.tool_name(node.func) is not None and "." in path):
            return None
        if isinstance(node.func, ast.Name) and node.func.id in self.imports:
            return WORLD.get(self.imports[node.func.id])
        return WORLD.get(path)

    def choice_by_chance(self, node: ast.AST) -> str | None:
        """Return which choice of the module `random` an expression makes, such as `choice`."""
        if not isinstance(node, ast.Call) or self.tool_name(node.func) is not None:
            return None
        head = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        if isinstance(head, ast.Name) and head.id in self.names:
            return None
        module, _, name = self.path(node.func).partition(".")
        return name if module == "random" and name in CHOICES else None

    def is_coroutine(self, node: ast.AST) -> bool:
        """Return True if an expression is a call that has to be awaited."""
        if not isinstance(node, ast.Call):
            return False
        if self.tool_name(node.func) is not None:
            return True
        path = self.path(node.func)
        if path.split(".")[0] in self.names - self.functions.keys():
            return False
        if path.startswith("asyncio."):
            return path.split(".", 1)[1] in ASYNCIO - {"timeout", "as_completed"}
        if path in ("call_tool", "approve", "wait_for"):
            return True
        return isinstance(self.functions.get(path), ast.AsyncFunctionDef)

    def makes_task(self, node: ast.AST) -> ast.expr | None:
        """Return the call inside `asyncio.create_task(call)`; None for anything else."""
        if not isinstance(node, ast.Call) or not node.args:
            return None
        return node.args[0] if self.path(node.func) in ("asyncio.create_task", "asyncio.ensure_future") else None

    def has_effect(self, nodes: ast.AST | Iterable[ast.AST]) -> bool:
        """Return True if evaluating these nodes touches the world, so that they cannot be part of a piece."""
        for node in [nodes] if isinstance(nodes, ast.AST) else nodes:
            facts = facts_of(node)
            if facts.awaits or (self.kept and not self.kept.keys().isdisjoint(facts.scope_names)):
                return True
            if any(self._is_effect(call) for call in facts.calls):
                return True
        return False

    def _is_effect(self, call: ast.Call) -> bool:
        function = call.func
        if isinstance(function, ast.Name):
            if function.id in self._pure_functions:
                return False
            if self.reads_world(function.id):
                return True
        is_by_chance = self.world_call(call) is not None or self.choice_by_chance(call) is not None
        return is_by_chance or self.is_coroutine(call)

    def reads_world(self, name: str, seen: frozenset[str] = frozenset()) -> bool:
        """Return True if a local function without `async` reads the clock or chance, itself or by another."""
        function = self.functions.get(name)
        if not isinstance(function, ast.FunctionDef) or name in seen:
            return False
        for node in walk(function):
            if self.world_call(node) is not None or self.choice_by_chance(node) is not None:
                return True
            called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
            if called is not None and self.reads_world(called, seen | {name}):
                return True
        return False

    def is_pure(self, node: ast.stmt) -> bool:
        """Return True if a statement can be part of a piece."""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Import, ast.ImportFrom)):
            return False
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        if isinstance(value, ast.Lambda) or self.is_semaphore(value):
            return False
        return not self.has_effect(node)

    def suggest(self, name: str, more: Iterable[str]) -> str | None:
        """Return the known name that is nearest to a wrong one."""
        return did_you_mean(name, [*more, *self.tools, *self.functions, *KNOWN])


def python_name(tool_id: str) -> str:
    """Return how a plan names a tool: `server:my-tool` is `server.my_tool`."""
    return ".".join(re.sub(r"\W", "_", part) for part in tool_id.split(":", 1))


def imported_names(imports: Iterable[ast.Import | ast.ImportFrom]) -> dict[str, str]:
    """Return what the imports of a program bind: `{"Counter": "collections.Counter", "m": "math"}`."""
    names: dict[str, str] = {"asyncio": "asyncio", "json": "json", "math": "math"}
    names |= {module: module for module in (*MODULES, *WORLD_MODULES)}
    for node in imports:
        for alias in node.names:
            if isinstance(node, ast.Import):
                names[alias.asname or alias.name.split(".")[0]] = alias.name
            else:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names
