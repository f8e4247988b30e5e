"""What a store holds is JSON: nothing in Ropewalk reads a format that can run code when it is read."""

from __future__ import annotations

import ast
import os
import pickle
from pathlib import Path

import pytest

from ropewalk.workers.dbos_adapter import JsonSerializer

pytestmark = pytest.mark.usefixtures("collector_off")
SOURCE = Path(__file__).parents[1] / "src" / "ropewalk"
UNSAFE_MODULES = {"cloudpickle", "dill", "jsonpickle", "pickle", "shelve"}
UNSAFE_CALLS = {("marshal", "load"), ("marshal", "loads"), ("yaml", "load"), ("yaml", "unsafe_load")}


def unsafe_readers(text: str) -> list[str]:
    """Return every import and call in a module that could read a serialised object."""
    found: list[str] = []
    if not any(word in text for word in (*UNSAFE_MODULES, *(name for name, _ in UNSAFE_CALLS))):
        return found  # without parsing it
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Attribute) and (ast.unparse(node.value), node.attr) in UNSAFE_CALLS:
            found.append(ast.unparse(node))
        found += [name for name in names if name.partition(".")[0] in UNSAFE_MODULES]
    return found


def test_no_module_reads_serialised_objects() -> None:
    assert unsafe_readers("import pickle\nfrom dill import x\nmarshal.loads(b)") == ["pickle", "dill", "marshal.loads"]
    modules = sorted(SOURCE.rglob("*.py"))
    assert len(modules) > 100
    found = {str(file.relative_to(SOURCE)): unsafe_readers(file.read_text("utf-8")) for file in modules}
    # It copies parsed text: the bytes were written by the same process and never leave it.
    assert found.pop("source/load.py") == ["marshal.loads"]
    assert {file: names for file, names in found.items() if names} == {}


def test_the_queue_of_workers_holds_json() -> None:
    class Hostile:
        def __reduce__(self) -> object:
            return (os.abort, ())

    queue = JsonSerializer()
    assert queue.deserialize(queue.serialize({"run": ["r", 1, None]})) == {"run": ["r", 1, None]}
    with pytest.raises(ValueError, match=r"unexpected character|invalid"):
        queue.deserialize(pickle.dumps(Hostile(), 0).decode("latin-1"))
