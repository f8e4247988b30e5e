"""What Ropewalk relies on in DBOS: the installed release has it, one that lacks any of it is refused by name, and
nothing else of DBOS is used."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dbos
import pytest

from ropewalk.errors import StoreError
from ropewalk.workers import dbos_contract
from ropewalk.workers.dbos_adapter import import_dbos

from .crew import Crew

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "ropewalk"
ADAPTER = SOURCE / "workers" / "dbos_adapter.py"
CLASSES = {**dbos_contract.PUBLIC, **dbos_contract.PRIVATE}


@pytest.fixture(autouse=True)
def _checked_again() -> Iterator[None]:
    dbos_contract.check_package.cache_clear()
    yield
    dbos_contract.check_package.cache_clear()


def owner_of(path: str) -> tuple[Any, str]:
    """What has the name at the end of the path: the package, a module or a class of DBOS."""
    found: Any = dbos
    *way, name = path.split(".")
    for step in way:
        found = getattr(found, step)
    return found, name


def test_the_pinned_minor_version_is_the_one_that_is_tested() -> None:
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["distributed"]
    [pin] = [one for one in extra if one.startswith("dbos")]
    minor = int(dbos_contract.TESTED.split(".")[1])
    assert pin == f"dbos>={dbos_contract.TESTED},<3.{minor + 1}"
    assert version("dbos").startswith(f"{dbos_contract.TESTED}.")
    assert f"dbos=={version('dbos')}\n" in (ROOT / "constraints.txt").read_text()


def test_the_installed_release_has_all_of_it() -> None:
    dbos_contract.check_package()


@pytest.mark.parametrize("path", CLASSES)
def test_a_release_that_lacks_a_name_is_refused_by_it(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    owner, name = owner_of(path)
    monkeypatch.delattr(owner, name)
    with pytest.raises(StoreError, match=rf"lacks .*\b{re.escape(path)}\b") as refused:
        import_dbos()
    assert f"DBOS {version('dbos')} lacks" in str(refused.value)
    assert "pip install 'dbos==3.4.*'" in str(refused.value)


@pytest.mark.parametrize(
    ("path", "parameter"),
    [(path, parameter) for path, parameters in CLASSES.items() for parameter in parameters],
)
def test_a_release_that_renamed_a_parameter_is_refused_by_it(
    monkeypatch: pytest.MonkeyPatch, path: str, parameter: str
) -> None:
    owner, name = owner_of(path)
    real = getattr(owner, name)
    signature = inspect.signature(real)
    kept = [one for one in signature.parameters.values() if one.name != parameter]

    def renamed(*args: Any, **more: Any) -> None:
        raise AssertionError

    renamed.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    monkeypatch.setattr(owner, name, staticmethod(renamed) if isinstance(owner, type) else renamed)
    with pytest.raises(StoreError, match=f"the parameter {parameter} of {re.escape(path)}"):
        dbos_contract.check_package()


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, keys in dbos_contract.KEYS.items() for key in keys])
def test_a_release_that_renamed_a_key_is_refused_by_it(monkeypatch: pytest.MonkeyPatch, name: str, key: str) -> None:
    monkeypatch.delitem(getattr(dbos, name).__annotations__, key)
    with pytest.raises(StoreError, match=f"the key {key} of {name}"):
        dbos_contract.check_package()


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in dbos_contract.OF_INSTANCES.items() for name in names]
)
def test_an_instance_that_lacks_an_attribute_is_refused_by_it(kind: str, name: str) -> None:
    others = {other: None for other in dbos_contract.OF_INSTANCES[kind] if other != name}
    with pytest.raises(StoreError, match=rf"{kind}\(\)\.{name}"):
        dbos_contract.check_instance(kind, SimpleNamespace(**others))


@pytest.mark.parametrize("column", sorted(dbos_contract.COLUMNS))
def test_a_table_that_lacks_a_column_is_refused_by_it(column: str) -> None:
    with pytest.raises(StoreError, match=f"the column {column} of workflow_status"):
        dbos_contract.check_columns(set(dbos_contract.COLUMNS - {column}))


LACKING = {
    "DBOSClient.cancel_workflows": "del dbos.DBOSClient.cancel_workflows",
    "DBOS()._active_workflows_set": """
real = dbos.DBOS.__init__
@functools.wraps(real)
def init(self, **more):
    real(self, **more)
    self._running = self.__dict__.pop("_active_workflows_set", None)
dbos.DBOS.__init__ = init""",
    "DBOSClient()._sys_db": """
real = dbos.DBOSClient.__init__
@functools.wraps(real)
def init(self, **more):
    real(self, **more)
    self._database = self.__dict__.pop("_sys_db", None)
    self.destroy = lambda: None
dbos.DBOSClient.__init__ = init""",
    "Queue()._worker_concurrency": """
real = dbos.DBOSClient.register_queue
@functools.wraps(real)
def register_queue(self, *words, **more):
    queue = real(self, *words, **more)
    del queue._worker_concurrency
    return queue
dbos.DBOSClient.register_queue = register_queue""",
}


@pytest.mark.parametrize("name", LACKING)
def test_a_worker_with_such_a_release_ends_with_the_reason(crew: Callable[..., Crew], name: str) -> None:
    scene = crew()
    tools = scene.folder / "tools.py"
    tools.write_text(f"{tools.read_text()}\nimport dbos, functools\n{LACKING[name]}\n")
    done = scene.run("worker")
    assert done.code != 0
    assert f"DBOS {version('dbos')} lacks {name}, which Ropewalk needs;" in done.err


# --- nothing else is used -----------------------------------------------------------------


def private_names() -> set[str]:
    """The last parts of private paths, and the attributes of instances."""
    paths = {path.split(".")[-1] for path in dbos_contract.PRIVATE}
    return paths | {name for names in dbos_contract.OF_INSTANCES.values() for name in names}


def uses_of_dbos(tree: ast.Module) -> Iterator[str]:
    """Imports of DBOS, mentions of its private names, and its table in SQL."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.split(".")[0] == "dbos")
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "dbos":
            yield str(node.module)
        elif isinstance(node, ast.Attribute) and node.attr in private_names():
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and ".workflow_status" in node.value:
            yield "workflow_status"


def test_only_the_adapter_uses_dbos() -> None:
    # Whatever the tree can hold of it is a word of the text, and to parse all files takes seconds.
    mentions = re.compile("|".join(["dbos", "workflow_status", *private_names()]))
    texts = {path: path.read_text() for path in SOURCE.rglob("*.py") if path != ADAPTER}
    used = {
        str(path.relative_to(SOURCE)): found
        for path, text in texts.items()
        if mentions.search(text) and (found := list(uses_of_dbos(ast.parse(text))))
    }
    assert used == {}


def test_the_adapter_uses_all_that_is_listed_and_no_other_private_name() -> None:
    tree = ast.parse(ADAPTER.read_text())
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    own |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and is_of_self(node)}
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert {name for name in used - own if name.startswith("_")} == {
        name for name in private_names() if name.startswith("_")
    }
    assert private_names() <= used
    text = "".join(path.read_text() for path in SOURCE.glob("workers/*.py"))
    unused = [path for path in dbos_contract.PUBLIC if not re.search(rf"\b{path.split('.')[-1]}\b", text)]
    assert unused == []
    parameters = {name for names in [*CLASSES.values(), *dbos_contract.KEYS.values()] for name in names}
    assert [name for name in sorted(parameters) if not re.search(rf"\b{name}\b", text)] == []
    assert [name for name in dbos_contract.COLUMNS if not re.search(rf"\b{name}\b", ADAPTER.read_text())] == []


def is_of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


@pytest.mark.parametrize(
    "line",
    [
        "import dbos",
        "from dbos._sys_db import SystemDatabase",
        "client._sys_db.run_migrations()",
        'query = "SELECT 1 FROM ropewalk_dbos.workflow_status"',
    ],
)
def test_a_file_that_uses_dbos_is_found(line: str) -> None:
    assert list(uses_of_dbos(ast.parse(line)))
