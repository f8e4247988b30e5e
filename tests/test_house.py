"""The rules of the house, as far as a machine can hold them. ARCHITECTURE.md says why.

*A file imports only from a lower layer or its own folder; rooms on one layer never import each
other; nobody imports the package root.* The rules are functions over a source tree, so that each
is also shown a made-up tree that breaks it: a rule that cannot fail holds nothing.
"""

from __future__ import annotations

import ast
import functools
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ropewalk.app.start import Start

pytestmark = pytest.mark.usefixtures("parsed_once")
PROJECT = Path(__file__).parents[1]
SOURCE = PROJECT / "src" / "ropewalk"

# Lowest first; a row is a layer.
LAYERS: list[set[str]] = [
    {"fast_dataclass"},
    {"errors"},
    {"argument_checks", "deadline", "duration", "problems", "values"},
    {"schema_defaults"},
    {"content", "events", "redaction", "schema", "source"},
    {"config", "expr", "journal", "schema_drafts"},
    {"ir", "outline", "tools"},
    {"ops", "state"},
    {"check", "codec", "draw"},
    {"plans"},
    {"notations", "servers"},
    {"builder", "engine", "extend", "select"},
    {"agents", "workers"},
    {"app", "n8n"},
    {"api", "telemetry", "testing"},
    {"toolchain"},
    {"doors"},
]
HEAVY = {"anthropic", "cyclopts", "dbos", "fastapi", "httpx2", "mcp", "opentelemetry", "psycopg", "pydantic"}
HEAVY |= {"rich", "sse_starlette", "starlette", "structlog", "uvicorn"}
SHARED_BY_DOORS = {"doors.connections", "doors.errors", "doors.failed_runs", "doors.remedies", "doors.security"}
MAY_IMPORT_HEAVY = ("doors/connections.py", "doors/cli/", "doors/http/")
MAY_IMPORT_HEAVY += ("tools/mcp/oauth.py", "tools/mcp/machine_auth.py")  # subclasses of httpx2.Auth and BaseModel
MAY_IMPORT_HEAVY += ("tools/mcp/authorization_server.py",)  # imported by these two only
STARTS_THE_OTHERS = "doors.cli"  # a door that commands open the others from, in their functions
BAD_NAMES = {"utils", "util", "helpers", "helper", "common"}
COMMAND_WORDS = re.compile(
    r"ropewalk (agents?|check|convert|doctor|mcp|plan|resume|runs?|schedules|serve|store|test|tools|workers?)\b"
    r"|(?<=[\s(`])--[a-z]|\b(GET|POST|PUT|PATCH|DELETE) /|/api/"
)
MOST_FUNCTION_LINES = 60
MOST_RUN_OPTIONS = 4


@dataclass(frozen=True)
class Import:
    """One import statement. `target` is a module inside the tree (`tools.tool`, "" for the root), or None."""

    line: int
    target: str | None
    package: str
    when: str  # "eager" (as the module is imported), "lazy" (in a function) or "typing" (never)


def python_files(root: Path) -> list[Path]:
    return sorted(p for p in root.rglob("*.py") if "node_modules" not in p.parts)


@functools.cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


@pytest.fixture(scope="module")
def parsed_once(collector_off: None) -> Iterator[None]:
    """Keep the trees for the tests of this file only: later collections would look at them."""
    yield
    parsed.cache_clear()
    imports.cache_clear()


def module_name(root: Path, file: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_module(root: Path, name: str) -> bool:
    path = root.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or path.is_dir()


@functools.cache
def imports(root: Path, file: Path) -> tuple[Import, ...]:
    """Every import of a file; relative and absolute spellings of our own modules give one name."""
    return tuple(read_imports(root, file))


def read_imports(root: Path, file: Path) -> Iterator[Import]:
    own = module_name(root, file)
    folder = own if file.name == "__init__.py" else own.rpartition(".")[0]

    def inside(dotted: str, names: list[str]) -> Iterator[str]:
        for name in names:
            deeper = f"{dotted}.{name}".strip(".")
            yield deeper if is_module(root, deeper) else dotted

    def walk(node: ast.AST, when: str) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    head, _, rest = alias.name.partition(".")
                    yield Import(child.lineno, rest if head == root.name else None, head, when)
            elif isinstance(child, ast.ImportFrom):
                names = [alias.name for alias in child.names]
                if child.level:
                    up = folder.split(".") if folder else []
                    base = up[: len(up) - (child.level - 1)]
                    dotted = ".".join([*base, *([child.module] if child.module else [])])
                    for target in inside(dotted, names):
                        yield Import(child.lineno, target, root.name, when)
                elif child.module:
                    head, _, rest = child.module.partition(".")
                    if head == root.name:
                        for target in inside(rest, names):
                            yield Import(child.lineno, target, head, when)
                    else:
                        yield Import(child.lineno, None, head, when)
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) and when == "eager":
                yield from walk(child, "lazy")
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                yield from walk(child, "typing")
            elif isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):  # no expression holds an import
                yield from walk(child, when)

    yield from walk(parsed(file), "eager")


def room(module: str) -> str:
    """What a layer rule speaks about: the first name, and each door by itself."""
    first, _, rest = module.partition(".")
    return f"doors.{rest.partition('.')[0]}" if first == "doors" and rest else first


def layer(module: str) -> int:
    first = module.partition(".")[0]
    return next((i for i, names in enumerate(LAYERS) if first in names), -1)


def may_be_named(one: Import, module: str, target: str) -> bool:
    """What stands on the same layer, and is known all the same."""
    if not (room(module).startswith("doors.") and room(target).startswith("doors.")):
        return False
    return room(target) in SHARED_BY_DOORS or (room(module) == STARTS_THE_OTHERS and one.when != "eager")


def wrong_imports(root: Path) -> list[str]:
    found = []
    for file in python_files(root):
        module, where = module_name(root, file), file.relative_to(root).as_posix()
        if module in ("", "__main__"):
            continue
        if layer(module) < 0:
            found.append(f"{where}: this room is on no layer; add it to LAYERS")
            continue
        for one in imports(root, file):
            target = one.target
            if target == "":
                found.append(f"{where}:{one.line}: imports the package root")
            elif target is None or room(target) == room(module) or target == "doors":
                continue
            elif layer(target) < 0:
                found.append(f"{where}:{one.line}: imports {target}, which is on no layer")
            elif may_be_named(one, module, target):
                continue
            elif layer(target) >= layer(module):
                same = layer(target) == layer(module)
                found.append(f"{where}:{one.line}: imports {target}, {'its own' if same else 'a higher'} layer")
    return found


def import_cycles(root: Path) -> list[str]:
    """Cycles between files; one hidden in a function counts, one that only types see does not."""
    edges = {
        module_name(root, file): sorted({i.target for i in imports(root, file) if i.target and i.when != "typing"})
        for file in python_files(root)
        if file.parent != root or file.name != "__init__.py"
    }
    found, done, path = [], set[str](), list[str]()

    def visit(module: str) -> None:
        if module in path:
            found.append(" -> ".join([*path[path.index(module) :], module]))
        elif module not in done:
            path.append(module)
            for target in edges.get(module, ()):
                if target != module:
                    visit(target)
            path.pop()
            done.add(module)

    for module in edges:
        visit(module)
    return found


def heavy_imports(root: Path) -> list[str]:
    return [
        f"{where}:{one.line}: imports {one.package} when the module is imported"
        for file in python_files(root)
        if not (where := file.relative_to(root).as_posix()).startswith(MAY_IMPORT_HEAVY)
        for one in imports(root, file)
        if one.when == "eager" and one.target is None and one.package in HEAVY
    ]


def too_long(root: Path) -> list[str]:
    found = []
    for file in python_files(root):
        if file.parent.name.startswith("corpus"):  # written by models, and never changed
            continue
        where = file.relative_to(root).as_posix()
        for node in ast.walk(parsed(file)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MOST_FUNCTION_LINES:
                    found.append(f"{where}:{node.lineno}: {node.name} has {length} lines")
    return found


def loose_options(root: Path) -> list[str]:
    """Functions that carry the options of a run one by one, and that no page or help shows to users."""
    options, found = set(Start.__dataclass_fields__), []
    for file in python_files(root):
        module, where = f"ropewalk.{module_name(root, file)}", file.relative_to(root).as_posix()
        for owner in (parsed(file), *(node for node in parsed(file).body if isinstance(node, ast.ClassDef))):
            for node in owner.body:
                if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    continue
                name = node.name if isinstance(owner, ast.Module) else f"{owner.name}.{node.name}"
                carried = options & {a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
                if len(carried) > MOST_RUN_OPTIONS and (module, name) not in shown_docstrings():
                    found.append(f"{where}:{node.lineno}: {name} carries {len(carried)} options of a run; take a Start")
    return found


def command_words(root: Path) -> list[str]:
    """Texts below the doors that name a command, a flag or a route; docstrings and `doors/` itself may."""
    found = []
    for file in python_files(root):
        where = file.relative_to(root).as_posix()
        if where.startswith("doors/"):
            continue
        tree = parsed(file)
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in docstrings:
                continue
            if match := COMMAND_WORDS.search(node.value):
                found.append(f"{where}:{node.lineno}: names {match[0]!r}; raise the error with a Remedy")
    return found


@functools.cache
def shown_docstrings() -> set[tuple[str, str]]:
    """The module and the name of each docstring that somebody reads: on a page, in the help, in OpenAPI."""
    from pydantic import BaseModel

    from ropewalk.app.app import App
    from ropewalk.doors.cli.commands import COMMANDS
    from ropewalk.doors.http.site import api_of

    shown = set(runpy.run_path(str(PROJECT / "scripts" / "api_reference.py"))["rendered"]())
    shown |= {(f"ropewalk.doors.cli.{module}", name) for module, name in (c[0].split(":") for c in COMMANDS.values())}
    api_of(App("memory"))  # imports every model
    models = [BaseModel]
    for model in models:
        models += model.__subclasses__()
    return shown | {(m.__module__, m.__qualname__) for m in models if m.__module__.startswith("ropewalk.doors.http")}


def long_docstrings(root: Path) -> list[str]:
    """Docstrings of more than one sentence that no page, help or OpenAPI document shows."""
    found = []

    def visit(node: ast.AST, module: str, where: str, inside: str) -> None:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                visit(child, module, where, inside)
                continue
            name = f"{inside}{child.name}"
            is_shown = (module, name) in shown_docstrings() or is_route(child)
            if not is_shown and has_more_sentences(ast.get_docstring(child) or ""):
                found.append(f"{where}:{child.lineno}: no page renders the docstring of {name}; make it one sentence")
            visit(child, module, where, f"{name}." if isinstance(child, ast.ClassDef) else f"{name}.<locals>.")

    for file in python_files(root):
        module = f"ropewalk.{module_name(root, file)}".rstrip(".")
        visit(parsed(file), module, file.relative_to(root).as_posix(), "")
    return found


def is_route(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    calls = [each.func for each in node.decorator_list if isinstance(each, ast.Call)]
    return any(isinstance(call, ast.Attribute) and call.attr in ("get", "post", "put", "delete") for call in calls)


def has_more_sentences(docstring: str) -> bool:
    if "\n\n" in docstring:
        return True
    text = re.sub(r"`[^`]*`", "`", " ".join(docstring.split()))
    ends = re.finditer(r"(?<!e\.g)(?<!i\.e)[.!?][\"')\]]*\s+(?=[\"'(\[]*[A-Z`$0-9])", text)
    return any(True for _ in ends)


def badly_named(root: Path) -> list[str]:
    return [
        file.relative_to(root).as_posix()
        for file in python_files(root)
        if any(part.removesuffix(".py").strip("_") in BAD_NAMES for part in file.relative_to(root).parts)
    ]


def test_files_import_only_from_lower_layers_or_their_own_folder() -> None:
    assert wrong_imports(SOURCE) == []


def test_every_room_is_in_the_tour() -> None:
    """Each on its row of the table of rooms in ARCHITECTURE.md."""
    rows = [line.split("|") for line in (PROJECT / "ARCHITECTURE.md").read_text("utf-8").splitlines()]
    told = {
        name.rstrip("/").split("/")[0] for row in rows if len(row) == 5 for name in re.findall(r"`([^`]+)`", row[2])
    }
    assert set().union(*LAYERS) - told == set()


def test_no_import_cycles() -> None:
    assert import_cycles(SOURCE) == []


def test_long_signatures_and_cycles_for_type_checkers_become_no_more() -> None:
    measure = runpy.run_path(str(PROJECT / "scripts" / "measure.py"))
    trees = measure["trees_of"](SOURCE, parsed)
    assert measure["over_shape"](SOURCE, PROJECT / "pyproject.toml", trees) == []


def test_heavy_packages_are_imported_only_where_they_are_used() -> None:
    assert heavy_imports(SOURCE) == []


def test_docstrings_that_no_page_renders_are_one_sentence() -> None:
    assert long_docstrings(SOURCE) == []


def test_options_of_a_run_travel_in_one_record() -> None:
    assert loose_options(SOURCE) == []


def test_only_doors_name_commands_flags_and_routes() -> None:
    assert list(command_words(SOURCE)) == []


@pytest.mark.parametrize("folder", ["src/ropewalk", "tests", "examples", "bench"])
def test_functions_are_short_and_files_are_named_by_noun(folder: str) -> None:
    assert too_long(PROJECT / folder) + badly_named(PROJECT / folder) == []


@pytest.mark.parametrize("what", ["ropewalk", "ropewalk.doors.cli"])
def test_importing_loads_no_heavy_package(what: str) -> None:
    code = f"import sys, {what}; print(*(m for m in sys.modules if '.' not in m))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    allowed = {"cyclopts", "rich"} if what.startswith("ropewalk.doors.cli") else set()
    assert set(out.split()) & HEAVY - allowed == set()


RULES = (wrong_imports, import_cycles, heavy_imports, too_long, badly_named, command_words, long_docstrings)
RULES += (loose_options,)
BROKEN = [
    ("ir.py", "from .engine import run", "ir.py:1: imports engine.run, a higher layer", wrong_imports),
    ("expr/a.py", "from ..journal import b", "expr/a.py:1: imports journal.b, its own layer", wrong_imports),
    ("tools/a.py", "def f():\n    import ropewalk.app", "tools/a.py:2: imports app, a higher layer", wrong_imports),
    ("tools/a.py", "from .. import Runner", "tools/a.py:1: imports the package root", wrong_imports),
    ("tools/a.py", "import ropewalk", "tools/a.py:1: imports the package root", wrong_imports),
    ("tools/a.py", "from ropewalk import Runner", "tools/a.py:1: imports the package root", wrong_imports),
    ("doors/cli/a.py", "from ..http import b", "doors/cli/a.py:1: imports doors.http.b, its own layer", wrong_imports),
    ("doors/http/b.py", "from ..cli import a", "doors/http/b.py:1: imports doors.cli.a, its own layer", wrong_imports),
    ("attic.py", "", "attic.py: this room is on no layer; add it to LAYERS", wrong_imports),
    ("tools/a.py", "from . import b", "tools.a -> tools.b -> tools.a", import_cycles),
    ("tools/a.py", "import mcp.types", "tools/a.py:1: imports mcp when the module is imported", heavy_imports),
    ("tools/a.py", "def f():\n" + "    x = 1\n" * 60, "tools/a.py:1: f has 61 lines", too_long),
    ("tools/_utils.py", "", "tools/_utils.py", badly_named),
    ("common/a.py", "", "common/a.py", badly_named),
    (
        "tools/a.py",
        "x = f'{y}: ropewalk runs {z}'",
        "tools/a.py:1: names 'ropewalk runs'; raise the error with a Remedy",
        command_words,
    ),
    (
        "tools/a.py",
        "raise X('add --from a')",
        "tools/a.py:1: names '--f'; raise the error with a Remedy",
        command_words,
    ),
    ("tools/a.py", "x = 'POST /runs'", "tools/a.py:1: names 'POST /'; raise the error with a Remedy", command_words),
    (
        "tools/a.py",
        'class A:\n    def f(x):\n        """Do it.\n\n        Args:\n            x: It.\n        """',
        "tools/a.py:2: no page renders the docstring of A.f; make it one sentence",
        long_docstrings,
    ),
    (
        "tools/a.py",
        'def f():\n    """Do it with `a.b`. Then stop."""',
        "tools/a.py:1: no page renders the docstring of f; make it one sentence",
        long_docstrings,
    ),
    (
        "tools/a.py",
        "class A:\n    def f(self, input, run_id, state, *, undo, park): ...",
        "tools/a.py:2: A.f carries 5 options of a run; take a Start",
        loose_options,
    ),
    ("ir.py", "x = ['/api/runs']", "ir.py:1: names '/api/'; raise the error with a Remedy", command_words),
]


@pytest.mark.parametrize(("file", "text", "complaint", "rule"), BROKEN, ids=[b[2][:40] for b in BROKEN])
def test_each_rule_notices_a_tree_that_breaks_it(tmp_path, file, text, complaint, rule) -> None:  # type: ignore[no-untyped-def]
    root = tmp_path / "ropewalk"
    whole = {
        "__init__.py": "",
        "app.py": "",
        "engine/run.py": "",
        "journal/b.py": "",
        "doors/http/b.py": "",
        "doors/cli/a.py": "",
        "tools/b.py": "def later():\n    from .a import x\n    import mcp\n",
    }
    for name, body in {**whole, file: text}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(body)
    assert complaint in rule(root)


def test_a_tree_that_keeps_the_rules_passes_them(tmp_path: Path) -> None:
    root = tmp_path / "ropewalk"
    files = {
        "__init__.py": "from .app import App",
        "errors.py": "",
        "values.py": "from .errors import X\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import mcp\n",
        "tools/__init__.py": "from .a import x",
        "tools/a.py": "from ..values import y\nfrom .b import x\ndef f():\n    import mcp\n",
        "tools/b.py": "import json",
        "toolchain.py": 'def select_tools():\n    """Run it.\n\n    Returns:\n        Its outcome.\n    """',
        "app.py": "from .tools import x",
        "doors/cli/main.py": "import rich\nfrom ...app import App\ndef f():\n    from ..http import serve",
        "doors/http/serve.py": "x = 'POST /api/runs; --from a'",
    }
    for name, body in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(body)
    assert [rule(root) for rule in RULES] == [[]] * len(RULES)
