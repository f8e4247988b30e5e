"""The random mode of scripts/mutants.py: which changes it makes, and how it judges them in a small project."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.process

SCRIPTS = Path(__file__).parent.parent / "scripts"
spec = importlib.util.spec_from_file_location("mutation", SCRIPTS / "mutation.py")
assert spec is not None
assert spec.loader is not None
mutation = importlib.util.module_from_spec(spec)
sys.modules["mutation"] = mutation
spec.loader.exec_module(mutation)


def changed(source: str) -> list[tuple[str, str]]:
    """Return every mutation of a text: its kind, and the changed text."""
    return [(found.kind, found.apply(source)) for found in mutation.sample(source, "seed", 1_000)]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("x < y", [("operator", "x <= y")]),
        ("x is not y", [("operator", "x is y")]),
        ("x not  in y", [("operator", "x in y")]),
        ("x == y != z", [("operator", "x != y != z"), ("operator", "x == y == z")]),
        ("((x) # +\n + y)", [("operator", "((x) # +\n - y)")]),
        ("x and y and z", [("operator", "x or y and z"), ("operator", "x and y or z")]),
        ("y = not x", [("operator", "y =  x")]),
        ("x += y", [("operator", "x -= y")]),
        ("x = 1", [("constant", "x = 2")]),
        ("x = True", [("constant", "x = False")]),
        ("x = 'é'", [("constant", "x = 'é_'")]),
        ('x = """a\nb"""', [("constant", 'x = """a\nb_"""')]),
        ("x = None", []),
        ("x = f'{y + 1}'", []),
        ("def f():\n    'd'\n    return x", [("return", "def f():\n    'd'\n    return None")]),
        ("def f():\n    return True", [("constant", "def f():\n    return False")]),
        ("def f(x: 'A' = y) -> 'B': ...", []),
        ("x: 'A' = y", []),
        ("if x: y", [("condition", "if (not (x)): y")]),
        ("if x is y: z", [("operator", "if x is not y: z")]),
        ("[x for x in y if x]", [("condition", "[x for x in y if (not (x))]")]),
        ("if TYPE_CHECKING:\n    x = 1", []),
    ],
)
def test_what_is_changed(source: str, wanted: list[tuple[str, str]]) -> None:
    assert changed(source) == wanted


def test_a_sample_is_the_same_each_time_and_holds_every_kind() -> None:
    source = "\n".join(f"def f{i}(x):\n    if x:\n        return x + {i}\n" for i in range(20))
    chosen = mutation.sample(source, "seed", 12)
    assert chosen == mutation.sample(source, "seed", 12) != mutation.sample(source, "other", 12)
    assert [sum(found.kind == kind for found in chosen) for kind in mutation.KINDS] == [3, 3, 3, 3]
    assert "-        return x + 3\n+        return x - 3" in {
        found.diff(source).split("@@\n")[-1] for found in mutation.sample(source, "seed", 1_000)
    }


SUMS = """LIMIT = 10


def add(a, b):
    if a > LIMIT:
        return LIMIT
    return a + b


def count(n):
    while n > 0:
        n -= 1
    return n


def never():
    return []
"""
TESTS = """import time
from ropewalk.sums import LIMIT, add, count


def test_add():
    assert add(2, 3) == 5
    assert add(11, 3) == 10


def test_count():
    assert count(3) == 0


def test_that_always_fails():
    assert add(1, 1) == 3
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small project with the scripts, whose tests are recorded."""
    root = tmp_path_factory.mktemp("project")
    shutil.copytree(SCRIPTS, root / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    script = root / "scripts" / "random_mutants.py"
    script.write_text(script.read_text().replace("PATIENCE = 8", "PATIENCE = 2"))
    (root / "src" / "ropewalk").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "src" / "ropewalk" / "__init__.py").touch()
    (root / "src" / "ropewalk" / "sums.py").write_text(SUMS)
    (root / "tests" / "test_sums.py").write_text(TESTS)
    (root / "pytest.ini").write_text("[pytest]\n")
    assert run(root, "--tests", "tests") == 1  # one test fails
    return root


def run(root: Path, *words: str) -> int:
    command = [sys.executable, str(root / "scripts" / "mutants.py"), "--random", "--module", "sums", "--record"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    environment["PYTEST_ADDOPTS"] = "-p no:schemathesis"  # slow to import
    found = subprocess.run([*command, "record", *words], cwd=root, env=environment, capture_output=True, text=True)
    (root / "printed").write_text(found.stdout + found.stderr)
    return found.returncode


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_recording_holds_the_lines_of_each_test_that_passes(project: Path) -> None:
    lines = {entry["test"]: entry["lines"]["ropewalk/sums.py"] for entry in read(project / "record")}
    assert lines == {"tests/test_sums.py::test_add": [5, 6, 7], "tests/test_sums.py::test_count": [11, 12, 13]}


@pytest.mark.campaign("reliability", only=True)
def test_every_mutant_gets_a_verdict_once(project: Path) -> None:
    assert run(project, "--results", "results", "--count", "100") == 0
    printed = (project / "printed").read_text()
    results = {entry["diff"].partition("@@\n")[2]: entry for entry in read(project / "results")}

    def verdict(old: str, new: str) -> tuple[str, str]:
        entry = results[f"-{old}\n+{new}"]
        return entry["verdict"], entry["by"].partition("::")[2]

    assert verdict("    return a + b", "    return a - b") == ("noticed", "test_add")
    assert verdict("LIMIT = 10", "LIMIT = 11") == ("noticed", "test_add")
    assert verdict("    return n", "    return None") == ("noticed", "test_count")
    # An endless loop: the test passes without it in a quarter of the time.
    assert verdict("        n -= 1", "        n += 1") == ("noticed", "test_count (late)")
    assert verdict("    if a > LIMIT:", "    if a >= LIMIT:") == ("SURVIVED", "")
    assert verdict("    return []", "    return None") == ("SURVIVED", "")
    assert "-    if a > LIMIT:\n+    if a >= LIMIT:" in printed
    noticed = sum(entry["verdict"] == "noticed" for entry in results.values())
    assert f"{len(results):4} mutants  noticed at first {noticed:4}" in printed

    # It goes on where it was: nothing is left. Once more with a test that notices what survived.
    assert run(project, "--results", "results", "--count", "100") == 0
    assert len(read(project / "results")) == len(results)
    (project / "tests" / "test_limit.py").write_text(
        "from ropewalk.sums import add\n\n\ndef test_limit():\n    assert add(10, 3) == 13\n"
    )
    assert run(project, "--tests", "tests/test_limit.py") == 0
    assert run(project, "--results", "results", "--count", "100", "--again") == 0
    again = read(project / "results")[len(results) :]
    assert {entry["id"] for entry in again} == {
        entry["id"] for entry in results.values() if entry["verdict"] != "noticed"
    }
    assert [entry["by"] for entry in again if "a >= LIMIT" in entry["diff"]] == ["tests/test_limit.py::test_limit"]
    assert f"now {noticed + 1:4}" in (project / "printed").read_text()
