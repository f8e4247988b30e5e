"""A test that fails runs once more, and one that passes then is named: `--second-try`, and scripts/steady.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

TESTS = Path(__file__).parent
STEADY = TESTS.parent / "scripts" / "steady.py"
CONFTEST = "from second_try import pytest_addoption, pytest_configure"
UNSTEADY = """
    from pathlib import Path

    import pytest

    TRIES = Path(__file__).with_suffix(".tries")

    @pytest.fixture(scope="session")
    def tries():
        with TRIES.open("a") as file:
            file.write("x")
        number = len(TRIES.read_text())
        assert number != FAILING_SETUP, "no such server"
        return number

    class TestRace:
        def test_now_and_then(self, tries):
            assert tries > FAILING_CALLS, "lost the race"
"""
OTHERS = """
    from pathlib import Path

    def test_passes():
        pass

    def test_fails_each_time():
        with Path(__file__).with_suffix(".calls").open("a") as calls:
            calls.write("x")
        assert False, "always"
"""


def write_suite(folder: Path, *, others: bool = True, setups: int = 0, calls: int = 1) -> None:
    unsteady = UNSTEADY.replace("FAILING_SETUP", str(setups)).replace("FAILING_CALLS", str(calls))
    for name, text in {"conftest.py": CONFTEST, "test_unsteady.py": unsteady, "test_others.py": OTHERS}.items():
        if others or name != "test_others.py":
            folder.joinpath(name).write_text(text.replace("\n    ", "\n"))
    folder.joinpath("pytest.ini").write_text("[pytest]\n")


def run(folder: Path, *command: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_ADDOPTS": "-p no:schemathesis"}  # slow to import
    return subprocess.run(
        [sys.executable, *map(str, command)], cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_a_test_that_passes_at_the_second_try_is_named_last(tmp_path: Path, workers: int) -> None:
    write_suite(tmp_path)
    done = run(tmp_path, "-m", "pytest", "-n", workers, "--second-try")
    assert done.returncode == 1, done.stdout
    *before, summary = done.stdout.splitlines()
    assert "1 failed, 2 passed, 1 unsteady" in summary
    named = [number for number, line in enumerate(before) if line.startswith("UNSTEADY ")]
    assert [before[number] for number in named] == ["UNSTEADY test_unsteady.py::TestRace::test_now_and_then"]
    failure = before[named[0] + 1 :]
    assert all(line.startswith("    ") for line in failure)
    assert "AssertionError: lost the race" in "\n".join(failure)
    assert (tmp_path / "test_others.calls").read_text() == "xx"  # no third try


def test_only_unsteady_tests_do_not_fail_the_run(tmp_path: Path) -> None:
    write_suite(tmp_path, others=False)
    done = run(tmp_path, "-m", "pytest", "-n0", "--second-try")
    assert (done.returncode, "UNSTEADY test_unsteady.py" in done.stdout) == (0, True)
    assert "FAILED" not in done.stdout


@pytest.mark.campaign("reliability", only=True)
def test_without_the_option_a_failure_fails(tmp_path: Path) -> None:
    write_suite(tmp_path, others=False)
    done = run(tmp_path, "-m", "pytest", "-n0")
    assert (done.returncode, "UNSTEADY" in done.stdout) == (1, False)


@pytest.mark.campaign("reliability", only=True)
def test_fixtures_of_the_session_start_again(tmp_path: Path) -> None:
    write_suite(tmp_path, others=False, setups=1, calls=0)
    done = run(tmp_path, "-m", "pytest", "-n0", "--second-try")
    assert done.returncode == 0, done.stdout
    assert "AssertionError: no such server" in done.stdout


def test_the_second_try_has_a_timeout_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_hangs.py").write_text("import threading\ndef test_hangs(): threading.Event().wait(60)")
    done = run(tmp_path, "-m", "pytest", "-n0", "--second-try", "--timeout=0.1", "--timeout-method=signal")
    assert done.returncode == 1, done.stdout
    assert "Failed: Timeout" in done.stdout


def test_steady_counts_failures_over_the_rounds(tmp_path: Path) -> None:
    write_suite(tmp_path, calls=2)
    done = run(tmp_path, STEADY, tmp_path, "--times", 3, "--load", 0, "-n0")
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[:3] == [
        f"round {round} of 3: {failed} failed" for round, failed in ((1, 2), (2, 2), (3, 1))
    ]
    assert "test_others.py::test_fails_each_time failed 3 of 3 times; at first:" in done.stdout
    assert "test_unsteady.py::TestRace::test_now_and_then failed 2 of 3 times; at first:" in done.stdout
    assert "    E   AssertionError: lost the race" in done.stdout


@pytest.mark.campaign("reliability", only=True)
def test_steady_runs_without_stress_ng_and_names_a_run_that_breaks(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import no_such_module")
    environment = {**os.environ, "PATH": "", "PYTEST_ADDOPTS": "-p no:schemathesis"}
    command = [sys.executable, str(STEADY), "no_such_file.py", "--times", "1"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("stress-ng is not installed: ")
    assert "file or directory not found: no_such_file.py" in done.stdout
