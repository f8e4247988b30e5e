"""Run the checked-in mutants: python scripts/mutants.py [--only ID ...] [--list] [--relocate]

`--random` judges a random sample of mutations of whole modules instead; `scripts/random_mutants.py` describes it.

A mutant is a small semantic fault in critical code, listed in `tests/mutants.toml` with the tests that must notice it.
The script applies each mutant to a copy of the package and runs its tests against the copy. A mutant whose tests still
pass is a survivor: it needs a better test.

A mutant may make a test run for ever or eat all memory. Each test run therefore has a limit of time and of memory, and
a mutant that exceeds one of them counts as killed.

Exit code: 0 if the tests killed every mutant, 1 if one survived or could not be judged.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
PACKAGE = "ropewalk"
LIST = ROOT / "tests" / "mutants.toml"

SECONDS = 120
"""Time limit for the tests of one mutant."""

MEMORY = 4 * 1024**3
"""Limit of address space in bytes for each process that the tests of one mutant start."""

MARK = "ROPEWALK_MUTANT_RUN"
"""Environment variable by which the processes of one test run are found, also those in sessions of their own."""


@dataclass(frozen=True)
class Mutant:
    """A small wrong change: in `module` the text `old` becomes `new`.

    Attributes:
        id: Unique name.
        why: What goes wrong for a user.
        module: Module in the package that contains `old`, such as `journal.claim`.
        old: Exact text to replace. It occurs once in the module.
        new: Text that replaces it.
        tests: Arguments of pytest: the cheapest tests that fail with the change.
    """

    id: str
    why: str
    module: str
    old: str
    new: str
    tests: tuple[str, ...]

    def path(self) -> Path:
        """Return the file of the module, relative to the folder of the source."""
        stem = SOURCE / PACKAGE / Path(*self.module.split("."))
        file = stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")
        return file.relative_to(SOURCE)

    def changed(self) -> str:
        """Return the text of the module with the change."""
        return (SOURCE / self.path()).read_text().replace(self.old, self.new)

    def problem(self) -> str | None:
        """Return why this mutant cannot be applied, or None."""
        count = sources().get(self.module, "").count(self.old)
        if count > 1:
            return f"its text occurs {count} times in {self.module}; add lines around it until it occurs once"
        if count == 0:
            places = occurrences(self.old)
            if not places:
                return f"its text is neither in {self.module} nor in any other module: adapt it to the changed code"
            if len(places) > 1:
                return f"its text is not in {self.module}, but in {', '.join(places)}: set `module` to one of these"
            return f"its text has moved from {self.module} to {places[0]}: run `python scripts/mutants.py --relocate`"
        for file in self.files():
            if not (ROOT / file).exists():
                return f"there is no test {file}; `python scripts/mutants.py --relocate` finds tests that have moved"
        try:
            compile(self.changed(), str(self.path()), "exec")
        except SyntaxError as error:
            return f"the changed module is not Python: {error}"
        return None

    def files(self) -> list[str]:
        """Return the files and folders with the tests."""
        return [test.partition("::")[0] for test in self.tests if test.startswith("tests/")]


@dataclass(frozen=True)
class Verdict:
    """Result of one mutant: `word` is "killed", "SURVIVED" or "ERROR".

    `by` is the test that failed, or the limit that the tests exceeded; `output` is the end of what pytest printed.
    """

    word: str
    by: str = ""
    output: str = ""
    seconds: float = 0.0


@cache
def sources() -> dict[str, str]:
    """Return the text of every module of the package by its name."""
    root = SOURCE / PACKAGE
    texts = {}
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        texts[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file.read_text()
    return texts


def occurrences(text: str) -> list[str]:
    """Return the modules that contain a text exactly once."""
    return [module for module, source in sources().items() if source.count(text) == 1]


def read_mutants() -> list[Mutant]:
    """Read the list."""
    entries = tomllib.loads(LIST.read_text())["mutant"]
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


def relocate() -> int:
    """Correct the modules and test files of mutants whose code or tests have moved, and return how many changed."""
    tests = [str(file.relative_to(ROOT)) for file in sorted((ROOT / "tests").rglob("test_*.py"))]
    blocks = re.split(r"(?m)^(?=\[\[mutant\]\]$)", LIST.read_text())
    count = 0
    for number, mutant in enumerate(read_mutants(), start=1):
        block = blocks[number]
        places = occurrences(mutant.old)
        if mutant.old not in sources().get(mutant.module, "") and len(places) == 1:
            block = block.replace(f'module = "{mutant.module}"', f'module = "{places[0]}"')
        for file in mutant.files():
            same = [other for other in tests if Path(other).name == Path(file).name]
            if not (ROOT / file).exists() and len(same) == 1:
                block = block.replace(f'"{file}', f'"{same[0]}')
        count += block != blocks[number]
        blocks[number] = block
    LIST.write_text("".join(blocks))
    return count


def end_processes(mark: str) -> None:
    """Kill what the tests of a run started, also in sessions of their own."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def run_tests(
    source: Path, tests: tuple[str, ...], *, stop_at_first: bool = True, seconds: float | None = None
) -> Verdict:
    """Run tests against a copy of the package, within the limits.

    Args:
        source: Folder with the package.
        tests: Arguments of pytest.
        stop_at_first: Whether the first failure ends the run.
        seconds: Time limit of a run that the first failure ends; `SECONDS` without it.

    Returns:
        "killed" if a test failed or the run exceeded a limit, "SURVIVED" if all passed, "ERROR" if no test ran.
    """
    mark = uuid.uuid4().hex
    # Each arena of malloc reserves address space, so a few threads would reach the limit. Derandomised property tests
    # give the same verdict each time, and do not fill the database of examples with those of mutants.
    env = {**os.environ, "PYTHONPATH": str(source), "MALLOC_ARENA_MAX": "2", MARK: mark}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", "-rfE", *tests]
    command += ["-x"] if stop_at_first else []
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=env,
            stdout=printed,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=limit_memory,
        )
        try:
            code: int | None = process.wait((seconds or SECONDS) if stop_at_first else None)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            end_processes(mark)
            process.wait()
        printed.seek(0)
        output = printed.read()
    return decide(code, output, time.monotonic() - began)


def decide(code: int | None, output: str, seconds: float) -> Verdict:
    """Turn the exit code of pytest and its output into a verdict; None means that the time was up."""
    end = "\n".join(output.strip().splitlines()[-5:])
    if code is None:
        return Verdict("killed", f"time limit of {SECONDS} s", end, seconds)
    if code == 0:
        return Verdict("SURVIVED", "", end, seconds)
    failed = re.findall(r"^(?:FAILED|ERROR) (tests/.+?\.py(?:::\S+?(?:\[.*?\])?)?)(?: - .*)?$", output, re.MULTILINE)
    if code < 0 or "MemoryError" in output:
        # Without memory pytest itself often fails, so its exit code says nothing.
        return Verdict("killed", f"memory limit of {MEMORY // 1024**3} GB", end, seconds)
    if code == 1 and failed:
        return Verdict("killed", failed[0], end, seconds)
    return Verdict("ERROR", "", end, seconds)


def judge(mutant: Mutant) -> Verdict:
    """Apply a mutant to a copy of the package and run its tests."""
    problem = mutant.problem()
    if problem is not None:
        return Verdict("ERROR", output=problem)
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(SOURCE, source)
        (source / mutant.path()).write_text(mutant.changed())
        return run_tests(source, mutant.tests)


def broken_tests(verdicts: dict[Mutant, Verdict]) -> dict[Mutant, str]:
    """Return the mutants whose tests fail without them too, with the output: such tests would kill everything."""
    killed = {mutant: verdict.by for mutant, verdict in verdicts.items() if verdict.word == "killed"}
    named = {by for by in killed.values() if by.startswith("tests/")}
    # All in one run: usually they pass.
    if named and run_tests(SOURCE, tuple(sorted(named)), stop_at_first=False).word == "SURVIVED":
        killed = {mutant: by for mutant, by in killed.items() if by not in named}
    broken: dict[Mutant, str] = {}
    for mutant in killed:
        run = run_tests(SOURCE, mutant.tests)
        if run.word != "SURVIVED":
            broken[mutant] = run.output
    return broken


def main() -> int:
    if "--random" in sys.argv:
        import random_mutants

        return random_mutants.main(sys.argv[1:])
    parser = argparse.ArgumentParser(description="Run the checked-in mutants.")
    parser.add_argument("--only", nargs="+", metavar="ID", help="these mutants; a prefix names several")
    parser.add_argument("--list", action="store_true", help="list the mutants and run nothing")
    parser.add_argument("--relocate", action="store_true", help="correct the list after code or tests have moved")
    parser.add_argument("--random", action="store_true", help="judge random mutants; see --random --help")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="mutants at the same time (default 1)")
    arguments = parser.parse_args()
    if arguments.relocate:
        print(f"{relocate()} mutants corrected in {LIST.relative_to(ROOT)}")
        return 0
    mutants = [mutant for mutant in read_mutants() if not arguments.only or mutant.id.startswith(tuple(arguments.only))]
    if arguments.list:
        print("\n".join(f"{mutant.id}: {mutant.why}" for mutant in mutants))
        return 0
    verdicts: dict[Mutant, Verdict] = {}
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for mutant, verdict in zip(mutants, pool.map(judge, mutants), strict=True):
            verdicts[mutant] = verdict
            print(f"{verdict.word:8}  {verdict.seconds:6.1f} s  {mutant.id}  {verdict.by}", flush=True)
            if verdict.word != "killed":
                print(f"          {mutant.why}\n          {verdict.output}", flush=True)
    broken = broken_tests(verdicts)
    for mutant, output in broken.items():
        print(f"ERROR     {mutant.id}: its tests fail without the mutant too\n          {output}", flush=True)
    bad = len(broken) + sum(verdict.word != "killed" for verdict in verdicts.values())
    print(f"\n{len(mutants)} mutants: {len(mutants) - bad} killed, {bad} not")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.modules["mutants"] = sys.modules["__main__"]  # which the random mode imports
    sys.exit(main())
