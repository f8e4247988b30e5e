"""Which tests are left out of the quick tier, and that test.sh asks for the right ones."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import tiers

PROJECT = Path(__file__).parents[1]


def test_this_test_is_quick(request: pytest.FixtureRequest) -> None:
    assert not tiers.needs_processes(request.node)


@pytest.mark.node
def test_a_test_of_an_npm_package_is_not(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("process")


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_parameter_named_postgres_makes_it_slow(request: pytest.FixtureRequest, store: str) -> None:
    assert (request.node.get_closest_marker("process") is not None) == (store == "postgres")


def test_recorded_files_and_folders_are_there() -> None:
    recorded = json.loads((PROJECT / "tests" / "durations.json").read_text("utf-8"))
    assert recorded
    assert all(seconds > 0 for seconds in recorded.values())
    assert all((PROJECT / "tests" / folder).is_dir() for folder in tiers.PROCESS_FOLDERS)


@pytest.mark.parametrize(
    ("words", "quick", "rest"),
    [
        ([], True, []),
        (["-x", "-k", "chain"], True, ["-x", "-k", "chain"]),
        (["--all"], False, []),
        (["--all", "-x"], False, ["-x"]),
        (["tests/faults", "--faults", "1"], False, ["tests/faults", "--faults", "1"]),
        (["tests/test_tiers.py::test_this_test_is_quick"], False, ["tests/test_tiers.py::test_this_test_is_quick"]),
    ],
)
def test_the_script_runs_the_quick_tier_unless_all_or_a_path_is_asked_for(
    tmp_path: Path, words: list[str], quick: bool, rest: list[str]
) -> None:
    for name in ("scripts/venv.sh", "scripts/node.sh", ".venv/bin/python"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n' if name.endswith("python") else "#!/bin/sh\n")
        path.chmod(0o755)
    (tmp_path / "tests/faults").mkdir(parents=True)
    (tmp_path / "tests/test_tiers.py").touch()
    (tmp_path / "test.sh").write_text((PROJECT / "test.sh").read_text("utf-8"))
    done = subprocess.run(
        ["bash", str(tmp_path / "test.sh"), *words], cwd=tmp_path, capture_output=True, text=True, env=dict(os.environ)
    )
    said = done.stdout.splitlines()
    tier = ["-m", "not process"] if quick else []
    assert said[:2] == ["-m", "pytest"]
    assert said[said.index("worksteal") + 1 :] == [*tier, *rest], done.stderr
