"""Which tests are quick, what a campaign and its slice run, and that test.sh asks for the right ones."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import pytest

import affected
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


class Script(Protocol):
    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]: ...


QUICK = ["-m", "not process and not campaign"]
THIS = "tests/test_tiers.py::test_this_test_is_quick"


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([], QUICK),
        (["-x", "-k", "chain"], [*QUICK, "-x", "-k", "chain"]),
        (["--all"], []),
        (["--all", "-x"], ["-x"]),
        (["tests/faults", "--faults-json", "f"], ["tests/faults", "--faults-json", "f"]),
        ([THIS], [THIS]),
        (["--affected", "-x"], ["tests/test_a.py", "tests/test_b.py", "-x"]),
        (["--campaigns"], ["--campaign", "all"]),
        (["--campaigns", "fuzz", "-x"], ["--campaign", "fuzz", "-x"]),
        (["--campaigns", "tests/faults"], ["--campaign", "all", "tests/faults"]),
    ],
)
def test_the_script_asks_for_the_tests_of_each_kind(script: Script, words: list[str], options: list[str]) -> None:
    done = script(*words)
    lines = done.stdout.splitlines()
    assert lines[:4] == ["-m", "pytest", "-n", "2"], done.stderr
    assert lines[lines.index("worksteal") + 1 :] == options


def test_a_campaign_is_repeated_with_other_seeds_until_its_time_is_over(script: Script) -> None:
    lines = script("--campaigns", "fuzz", "--seconds", "1").stdout.splitlines()
    assert lines[0] == "· fuzz, seed 1, 1 s left"
    seeds = [after for line, after in pairwise(lines) if line == "--seed"]
    assert seeds == list(map(str, range(1, len(seeds) + 1)))
    assert seeds


def test_a_time_without_a_campaign_is_refused(script: Script) -> None:
    done = script("--all", "--seconds", "9")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("--seconds is for --campaigns\n")


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Runs test.sh with a Python that prints its arguments, or the affected files."""
    python = '#!/bin/sh\n[ "$1" = tests/affected.py ] && printf "tests/test_%s.py\\n" a b || printf "%s\\n" "$@"\n'
    for name in ("scripts/venv.sh", "scripts/node.sh", ".venv/bin/python"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(python if name.endswith("python") else "#!/bin/sh\n")
        path.chmod(0o755)
    (tmp_path / "tests/faults").mkdir(parents=True)
    (tmp_path / "tests/test_tiers.py").touch()
    (tmp_path / "test.sh").write_text((PROJECT / "test.sh").read_text("utf-8"))
    return lambda *words: subprocess.run(
        ["bash", str(tmp_path / "test.sh"), *words], cwd=tmp_path, capture_output=True, text=True, env=dict(os.environ)
    )


def test_each_campaign_has_a_slice_among_all_tests() -> None:
    """A mark of a file, a test or a parameter, without `only`; tests with `@given` are marked by themselves."""
    slices = {"properties"}
    for path in affected.python_files(PROJECT / "tests"):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "campaign(" in text or "sampled(" in text else ():
            if isinstance(node, ast.Call) and not any(keyword.arg == "only" for keyword in node.keywords):
                function = ast.unparse(node.func)
                if function in ("pytest.mark.campaign", "sampled") and isinstance(node.args[0], ast.Constant):
                    slices.add(node.args[0].value)
    assert slices == set(tiers.CAMPAIGNS)


SUITE = {
    "conftest.py": """
        from tiers import add_options as pytest_addoption, configure as pytest_configure, scale, seed
        import closing

        def pytest_addoption(parser, add=pytest_addoption):
            add(parser)
            closing.pytest_addoption(parser)

        def pytest_configure(config, configure=pytest_configure):
            configure(config)
            closing.pytest_configure(config)
    """,
    "pytest.ini": """
        [pytest]
        markers =
            process: p
            campaign: c
    """,
    "test_counts.py": """
        import pytest
        from hypothesis import given, settings, strategies
        from tiers import examples, sampled

        @pytest.mark.campaign("faults")
        def test_scale(scale, seed):
            assert (scale(1, 50), seed) == EXPECTED

        @pytest.mark.parametrize("case", sampled("pages", "abcdefg", 2))
        def test_case(case):
            pass

        @pytest.mark.campaign("sizes", only=True)
        def test_large():
            pass

        @examples(200)
        @given(strategies.integers())
        def test_given(number):
            pass

        def test_other():
            pass
    """,
}


def write_suite(folder: Path, expected: object, **files: str) -> Path:
    for name, text in SUITE.items():
        folder.joinpath(name).write_text(textwrap.dedent(text).replace("EXPECTED", repr(expected)))
    for name, text in files.items():
        folder.joinpath(f"{name}.py").write_text(textwrap.dedent(text))
    return folder


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # schemathesis is slow to import
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "tests"), "PYTEST_ADDOPTS": "-p no:schemathesis"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("words", "expected", "counts"),
    [
        ([], (1, 1), "5 passed, 6 deselected"),
        (["--campaign", "faults", "--seed", "3"], (50, 3), "1 passed, 10 deselected"),
        (["--campaign", "pages"], None, "7 passed, 4 deselected"),
        (["--campaign", "all", "--seconds", "0"], None, "10 skipped, 1 deselected"),
        (["-m", "not process and not campaign"], None, "1 passed, 10 deselected"),
    ],
)
@pytest.mark.process
def test_slices_and_campaigns_take_their_tests_and_counts(
    tmp_path: Path, words: list[str], expected: object, counts: str
) -> None:
    done = run(write_suite(tmp_path, expected), *words)
    assert counts in done.stdout.splitlines()[-1], done.stdout


@pytest.mark.campaign("reliability", only=True)
@pytest.mark.process
def test_an_unknown_campaign_is_refused_with_the_list(tmp_path: Path) -> None:
    done = run(write_suite(tmp_path, None), "--campaign", "fuz")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "unknown campaign 'fuz'; choose one of: all, claims, conformance, cost, faults, fuzz," in done.stderr
    broken = "import pytest\n\n@pytest.mark.campaign('pagse')\ndef test_page(): pass\n"
    done = run(write_suite(tmp_path, None, test_broken=broken))
    assert "test_broken.py::test_page: unknown campaign 'pagse'; add it to tests/tiers.py" in done.stderr
    done = run(write_suite(tmp_path, None, test_broken="def test_page(scale): pass\n"))
    assert "test_broken.py::test_page: only a test with the marker campaign has two scales" in done.stderr


@pytest.mark.process
def test_the_last_lines_name_slow_files_and_how_to_repeat_the_first_failure(tmp_path: Path) -> None:
    write_suite(tmp_path, (1, 1), test_a="def test_a(): assert 0\n\ndef test_b(): assert 0\n")
    checks = tmp_path / "failed"
    checks.touch()
    lines = run(tmp_path, "--closing", str(checks)).stdout.splitlines()
    start = lines.index("slowest files:")
    assert {line.split()[-1] for line in lines[start + 1 : start + 3]} == {"test_a.py", "test_counts.py"}
    assert lines[start + 3 : -1] == [
        "failed first: test_a.py::test_a",
        "repeat it: ./test.sh -n0 test_a.py::test_a",
        "1 more failed",
    ]
    assert "2 failed, 5 passed" in lines[-1]
    checks.write_text("mypy\n")
    lines = run(tmp_path, "--closing", str(checks)).stdout.splitlines()
    assert lines[-4:-1] == ["failed first: mypy", "repeat it: .venv/bin/python -m mypy", "2 more failed"]


def test_a_change_reaches_the_tests_that_import_or_name_it(tmp_path: Path) -> None:
    files = {
        "src/pack/__init__.py": "from .flow import Flow\nfrom .other import Other\n",
        "src/pack/flow.py": "from pack import steps\n",
        "src/pack/steps.py": "",
        "src/pack/other.py": "",
        "tests/conftest.py": "import subprocess, pytest\n@pytest.fixture\ndef child(): return subprocess\n",
        "tests/lab.py": "from pack import Flow\n",
        "tests/test_flow.py": "import lab\n",
        "tests/test_lazy.py": "NAME = 'pack.other:Other'\n",
        "tests/test_command.py": "def test_it(child): ...\n",
        "tests/test_pages.py": "PAGE = ROOT / 'docs' / 'x.md'\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    graph = affected.Graph(tmp_path)

    def reached(name: str) -> set[str]:
        return {test.removeprefix("tests/test_").removesuffix(".py") for test in graph.reached([name])}

    assert reached("src/pack/steps.py") == {"flow", "command"}
    assert reached("src/pack/other.py") == {"lazy", "command"}
    assert reached("tests/lab.py") == {"flow"}
    assert reached("tests/test_pages.py") == {"pages"}
    assert reached("docs/y.md") == {"pages"}
    assert reached("tests/conftest.py") == reached("setup.cfg") == {"flow", "lazy", "command", "pages"}
