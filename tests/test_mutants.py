"""The list of mutants fits the code: each can be applied, and its tests exist. `scripts/mutants.py` runs them."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).parent.parent / "scripts" / "mutants.py"
spec = importlib.util.spec_from_file_location("mutants", PATH)
assert spec is not None
assert spec.loader is not None
mutants = importlib.util.module_from_spec(spec)
sys.modules["mutants"] = mutants
spec.loader.exec_module(mutants)


def test_every_mutant_can_be_applied() -> None:
    problems = {mutant.id: problem for mutant in mutants.read_mutants() if (problem := mutant.problem()) is not None}
    assert not problems


def test_ids_differ() -> None:
    counted = Counter(mutant.id for mutant in mutants.read_mutants())
    assert [id for id, count in counted.items() if count > 1] == []


def test_each_mutant_changes_something_else() -> None:
    counted = Counter((mutant.module, mutant.old, mutant.new) for mutant in mutants.read_mutants())
    assert [change for change, count in counted.items() if count > 1] == []


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small project with one module, one test and a list of one mutant."""
    (tmp_path / "src" / "ropewalk" / "old").mkdir(parents=True)
    (tmp_path / "tests" / "new").mkdir(parents=True)
    for folder in ("src/ropewalk", "src/ropewalk/old"):
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "src" / "ropewalk" / "old" / "sums.py").write_text("def add(a, b):\n    return a + b\n")
    (tmp_path / "tests" / "test_sums.py").write_text(
        "from ropewalk.old.sums import add\n\n\ndef test_add():\n    assert add(2, 2) == 4\n    assert add(2, 3) == 5\n"
    )
    for name, value in (("ROOT", tmp_path), ("SOURCE", tmp_path / "src"), ("LIST", tmp_path / "tests/mutants.toml")):
        monkeypatch.setattr(mutants, name, value)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:schemathesis")  # slow to import
    mutants.sources.cache_clear()
    yield tmp_path
    mutants.sources.cache_clear()


def write_mutant(project: Path, new: str, module: str = "old.sums", old: str = "return a + b") -> Any:
    """Write a list with one mutant, and read it."""
    (project / "tests" / "mutants.toml").write_text(
        f'[[mutant]]\nid = "m"\nwhy = "w"\nmodule = "{module}"\nold = "{old}"\nnew = "{new}"\n'
        'tests = ["tests/test_sums.py"]\n'
    )
    mutants.sources.cache_clear()
    (mutant,) = mutants.read_mutants()
    return mutant


@pytest.mark.parametrize(
    ("new", "word", "by"),
    [
        ("return a * b", "killed", "tests/test_sums.py::test_add"),
        ("return b + a", "SURVIVED", ""),
        ("return bytearray(10**11)", "killed", "memory limit of 4 GB"),
        ("while True: pass", "killed", "time limit of 1 s"),
    ],
)
@pytest.mark.process
def test_verdicts(project: Path, monkeypatch: pytest.MonkeyPatch, new: str, word: str, by: str) -> None:
    monkeypatch.setattr(mutants, "SECONDS", 1 if "while" in new else 60)
    verdict = mutants.judge(write_mutant(project, new))
    assert (verdict.word, verdict.by) == (word, by), verdict.output


@pytest.mark.process
def test_no_process_outlives_its_mutant(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child in a session of its own is not in the process group of pytest."""
    monkeypatch.setattr(mutants, "SECONDS", 60)
    start = (
        "import subprocess; open('pid', 'w').write(str(subprocess.Popen(['sleep', '600'], start_new_session=True).pid))"
    )
    mutants.judge(write_mutant(project, start))
    child = Path("/proc") / (project / "pid").read_text()
    assert not child.exists() or " Z " in (child / "stat").read_text()


def test_moved_code_and_tests_are_found(project: Path) -> None:
    (project / "src" / "ropewalk" / "old" / "sums.py").rename(project / "src" / "ropewalk" / "totals.py")
    (project / "tests" / "test_sums.py").rename(project / "tests" / "new" / "test_sums.py")
    mutant = write_mutant(project, "return a * b")
    assert mutant.problem() == (
        "its text has moved from old.sums to totals: run `python scripts/mutants.py --relocate`"
    )
    assert mutants.relocate() == 1
    (mutant,) = mutants.read_mutants()
    assert (mutant.module, mutant.tests) == ("totals", ("tests/new/test_sums.py",))
    assert mutant.problem() is None


def test_a_text_that_is_not_unique_is_named(project: Path) -> None:
    folder = project / "src" / "ropewalk"
    (folder / "one.py").write_text("x = 1\n")
    (folder / "two.py").write_text("x = 1\n")
    assert write_mutant(project, "x = 2", old="x = 1").problem() == (
        "its text is not in old.sums, but in one, two: set `module` to one of these"
    )
    assert "neither in old.sums nor in any other module" in write_mutant(project, "x", old="y = 1").problem()
    (folder / "one.py").write_text("x = 1\nx = 1\n")
    assert "occurs 2 times in one" in write_mutant(project, "x = 2", module="one", old="x = 1").problem()
