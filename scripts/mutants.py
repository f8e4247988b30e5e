"""Run the checked-in mutants: python scripts/mutants.py [--only ID ...] [--list]

A mutant is a small wrong change of critical code, with the tests that must notice it (`tests/mutants.toml`). Each is
applied to a copy of the package, and its tests run against the copy. A mutant whose tests still pass is a survivor.

Exit code: 0 if every mutant was killed, 1 if one survived or could not be judged.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "mutants.toml"
LIMIT = 300
"""Seconds for the tests of one mutant: one that hangs has been noticed."""


@dataclass(frozen=True)
class Mutant:
    """One wrong change: in `file` the text `old` becomes `new`; `tests` are arguments of pytest."""

    id: str
    why: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def problem(self) -> str | None:
        """Return why this mutant cannot be applied, or None."""
        path = ROOT / self.file
        if not path.is_file():
            return f"{self.file} does not exist"
        count = path.read_text().count(self.old)
        if count != 1:
            return f"its text is {count} times in {self.file}; it must be there once"
        files = [test.partition("::")[0] for test in self.tests if test.startswith("tests/")]
        missing = [file for file in files if not (ROOT / file).exists()]
        if missing:
            return f"there is no test {missing[0]}"
        try:
            compile(self.changed(), self.file, "exec")
        except SyntaxError as error:
            return f"the changed file is not Python: {error}"
        return None

    def changed(self) -> str:
        """Return the text of the file with the change."""
        return (ROOT / self.file).read_text().replace(self.old, self.new)


def read() -> list[Mutant]:
    """Read the list."""
    entries = tomllib.loads(LIST.read_text())["mutant"]
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


def run_tests(source: Path, tests: tuple[str, ...]) -> tuple[int, str]:
    """Run tests against a copy of the package.

    Returns:
        The exit code of pytest, or 1 if it took longer than LIMIT, and the end of its output.
    """
    env = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return 1, f"took longer than {LIMIT} s"
    return done.returncode, "\n".join(done.stdout.strip().splitlines()[-3:])


def judge(mutant: Mutant) -> tuple[str, float, str]:
    """Run a mutant: "killed", "SURVIVED" or "ERROR", the seconds it took, and the end of the output."""
    began = time.monotonic()
    problem = mutant.problem()
    if problem is not None:
        return "ERROR", 0.0, problem
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source)
        (Path(folder) / mutant.file).write_text(mutant.changed())
        code, output = run_tests(source, mutant.tests)
    verdict = {0: "SURVIVED", 1: "killed"}.get(code, "ERROR")
    return verdict, time.monotonic() - began, output


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the checked-in mutants.")
    parser.add_argument("--only", nargs="+", metavar="ID", help="these mutants; a prefix names several")
    parser.add_argument("--list", action="store_true", help="list the mutants and run nothing")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="mutants at once (default 2)")
    arguments = parser.parse_args()
    mutants = [one for one in read() if not arguments.only or one.id.startswith(tuple(arguments.only))]
    if arguments.list:
        print("\n".join(f"{one.id}: {one.why}" for one in mutants))
        return 0
    # Tests that fail anyway would seem to kill everything.
    suites = sorted({one.tests for one in mutants})
    with ThreadPoolExecutor(arguments.jobs) as pool:
        broken = {
            tests: output
            for tests, (code, output) in zip(
                suites, pool.map(lambda t: run_tests(ROOT / "src", t), suites), strict=True
            )
            if code != 0
        }
        bad = 0
        for mutant, (verdict, seconds, output) in zip(mutants, pool.map(judge, mutants), strict=True):
            if mutant.tests in broken:
                verdict, output = "ERROR", f"the tests fail without it: {broken[mutant.tests]}"
            bad += verdict != "killed"
            print(f"{verdict:8}  {seconds:6.1f} s  {mutant.id}", flush=True)
            if verdict != "killed":
                print(f"          {mutant.why}\n          {output}", flush=True)
    print(f"\n{len(mutants)} mutants: {len(mutants) - bad} killed, {bad} not")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
