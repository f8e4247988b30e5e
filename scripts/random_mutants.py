"""The random mode of scripts/mutants.py: a seeded sample of mutations of modules, judged by the tests that reach them.

    python scripts/mutants.py --random --record FILE --module check/updates ... [--tests tests/check ...]
    python scripts/mutants.py --random --record FILE --module check/updates ... --seed 73011 --count 40 --results FILE

The first command runs tests and records which of them execute which lines. It adds to the file, so that a recording
can be made in parts. The second one judges mutants and adds each verdict to the results. It goes on where it was
interrupted; `--again` judges what no test noticed once more. Verdicts:

- noticed: a test failed that passes without the mutation. A test that did not end in time counts only if it passes
  without the mutation in a quarter of that time.
- SURVIVED: all tests passed that execute the changed line and fit into the limits, or the time was up.
- UNREACHED: no recorded test executes any line of the module.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import coverage_record
import mutants
from coverage_record import Recorded
from forked_tests import Change, ForkedTests, Limits, Outcome, change_of, collect
from mutation import Mutation, sample

SECONDS = 60
"""Time limit for one mutant."""

BUDGET = 15.0
"""Recorded seconds of the tests that judge one mutant: a quarter of the limit."""

FRESH_FILES = 10
"""The most test files for a mutant that needs a new process, which imports and collects first."""

PATIENCE = 8
"""Seconds that a test may take in any case; a slow one may take longer."""

IN_MODULE = "ROPEWALK_MUTANT_MODULE"
"""Environment variable that is set in the process of one module."""

STARTED_IN = "ROPEWALK_MUTANTS_STARTED_IN"
"""Environment variable with the directory from which the files of arguments are found."""


@dataclass(frozen=True)
class Result:
    """The verdict on one mutant; `tests` is the number of tests that ran."""

    module: str
    id: str
    verdict: str
    by: str
    tests: int
    seconds: float
    diff: str
    output: str = ""


class Trial:
    """Judges the mutants of one module."""

    def __init__(self, module: str, tests: list[Recorded], budget: float) -> None:
        self._name = f"{mutants.PACKAGE}/{module}.py"
        self._file = mutants.SOURCE / self._name
        self._tests = [test for test in tests if self._name in test.lines]
        self._seconds = {test.test: test.seconds for test in self._tests}
        self._budget = budget
        self._module = module
        self._passes: dict[str, bool] = {}
        self._failures: Counter[str] = Counter()
        self.source = self._file.read_text()

    def files(self) -> list[str]:
        """Return the test files that have to be collected."""
        return sorted({test.test.partition("::")[0] for test in self._tests})

    def judge(self, mutation: Mutation, forked: ForkedTests, copy: Path) -> Result:
        """Run tests with the mutation until one notices it."""
        change = change_of(self._file, self.source, mutation.apply(self.source))
        is_fresh = not change.is_possible()
        self._write(copy, mutation.apply(self.source))
        total = 0.0
        while True:
            tests = self._chosen(mutation, forked, everything=is_fresh)
            if not tests and is_fresh:
                return self._result(mutation, "UNREACHED", "", Outcome("passed", "", total, 0.0))
            if not tests:  # perhaps the line runs while the module is imported
                is_fresh = True
                continue
            outcome = self._run_fresh(tests, copy) if is_fresh else self._run(forked, tests, copy, change)
            total += outcome.seconds
            if outcome.word == "passed":
                return self._result(mutation, "SURVIVED", "", outcome)
            if self._passes_unchanged(forked, tests, outcome):
                self._failures[outcome.test] += 1
                by = outcome.test if outcome.word == "failed" else f"{outcome.test} ({outcome.word})"
                return self._result(mutation, "noticed", by, outcome)
            if total > SECONDS:
                return self._result(mutation, "SURVIVED", f"the time was up in {outcome.test}", outcome)
            self._passes[outcome.test] = False  # it fails without the mutation too, or is too slow: judge without it

    def _chosen(self, mutation: Mutation, forked: ForkedTests, *, everything: bool) -> list[str]:
        """Return the tests to run: those that noticed others, those near the module, then the cheapest of each file."""
        reached = [test for test in self._tests if test.test in forked and self._passes.get(test.test, True)]
        lines = {mutation.line}
        if not everything and not any(self._executes(test, lines) for test in reached):
            # In Python a line inside a statement has often no event of its own.
            lines = set(range(mutation.statement, mutation.line + 1))
            if not any(self._executes(test, lines) for test in reached):
                return []
        turns: Counter[str] = Counter()
        places: dict[str, tuple[bool, int, int, int, float]] = {}
        for test in sorted(reached, key=lambda test: test.seconds):
            function = test.test.partition("[")[0]
            turns[function] += 1
            turns[f"{turns[function]} {test.test.partition('::')[0]}"] += 1
            turn = turns[function] * 4 + turns[f"{turns[function]} {test.test.partition('::')[0]}"]
            # A line that runs once per process, because its result is cached, is recorded for one test alone.
            is_other = not everything and not self._executes(test, lines)
            nearness = self._nearness(test.test)
            if not is_other or nearness:
                places[test.test] = (is_other, -self._failures[test.test], -nearness, turn, test.seconds)
        chosen, spent, files = [], 0.0, set[str]()
        for test in sorted(places, key=places.__getitem__):
            file = test.partition("::")[0]
            if everything and len(files) == FRESH_FILES and file not in files:
                continue
            files.add(file)
            spent += self._seconds[test]
            if chosen and spent > (self._budget / 2 if everything else self._budget):
                break
            chosen.append(test)
        return chosen

    def _executes(self, test: Recorded, lines: set[int]) -> bool:
        return not lines.isdisjoint(test.lines[self._name])

    def _nearness(self, test: str) -> int:
        """Return how many words the paths of a test and of the module have in common."""
        words = set(re.split(r"[/_.]", test.partition("::")[0]))
        return len(words.intersection(re.split(r"[/_]", self._module)))

    def _run(self, forked: ForkedTests, tests: list[str], copy: Path, change: Change) -> Outcome:
        """Run tests in a fork; programs that they start import the copy."""
        seconds_of = {test: PATIENCE + 20 * self._seconds[test] for test in tests}
        mark = uuid.uuid4().hex
        environment = {mutants.MARK: mark, "PYTHONPATH": str(copy)}
        with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as folder:
            environment["PYTEST_DEBUG_TEMPROOT"] = folder
            try:
                return forked.run(tests, Limits(SECONDS, mutants.MEMORY, seconds_of), environment, change)
            finally:
                mutants.end_processes(mark)

    def _run_fresh(self, tests: list[str], copy: Path) -> Outcome:
        """Run tests in a new process, as the module does something else while it is imported."""
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as list_of_tests:
            list_of_tests.write("\n".join(tests))
            list_of_tests.flush()
            verdict = mutants.run_tests(copy, (f"@{list_of_tests.name}",), seconds=SECONDS)
        count = len(tests)
        if verdict.word == "SURVIVED":
            return Outcome("passed", "", verdict.seconds, 0.0, count=count)
        if verdict.by in self._seconds:
            return Outcome("failed", verdict.by, verdict.seconds, 0.0, verdict.output, count)
        if verdict.word == "ERROR" or "limit" not in verdict.by:  # not even the collection came to its end
            return Outcome("failed", tests[0], verdict.seconds, 0.0, verdict.output, count)
        return Outcome("late", tests[0], verdict.seconds, verdict.seconds, verdict.output, count)

    def _passes_unchanged(self, forked: ForkedTests, tests: list[str], outcome: Outcome) -> bool:
        """Return True if the test that ended a run passes without the mutation."""
        match outcome.word:
            case "late":
                return self._run_unchanged(forked, [outcome.test], outcome.in_test / 4).word == "passed"
            case "died":  # the tests before it may have used up the memory
                return self._run_unchanged(forked, tests[: outcome.count], SECONDS).word == "passed"
        if outcome.test not in self._passes:
            self._passes[outcome.test] = self._run_unchanged(forked, [outcome.test], SECONDS).word == "passed"
        return self._passes[outcome.test]

    def _run_unchanged(self, forked: ForkedTests, tests: list[str], seconds: float) -> Outcome:
        mark = uuid.uuid4().hex
        with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as folder:
            environment = {mutants.MARK: mark, "PYTEST_DEBUG_TEMPROOT": folder}
            try:
                return forked.run(tests, Limits(seconds, mutants.MEMORY), environment)
            finally:
                mutants.end_processes(mark)

    def _write(self, copy: Path, text: str) -> None:
        """Put a text of the module into a copy of the source, without the bytecode of another text."""
        file = copy / self._name
        file.write_text(text)
        for old in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            old.unlink()

    def _result(self, mutation: Mutation, verdict: str, by: str, outcome: Outcome) -> Result:
        diff, seconds = mutation.diff(self.source), round(outcome.seconds, 1)
        output = outcome.output[-1500:]
        return Result(self._module, self.id_of(mutation), verdict, by, outcome.count, seconds, diff, output)

    def id_of(self, mutation: Mutation) -> str:
        """Return the name of a mutant in the results."""
        return f"{self._module}:{mutation.start}-{mutation.end}:{mutation.new[:20]}"


def read_results(file: Path) -> dict[str, list[Result]]:
    """Return the verdicts on each mutant, oldest first."""
    results: dict[str, list[Result]] = defaultdict(list)
    if file.exists():
        for line in file.read_text().splitlines():
            result = Result(**json.loads(line))
            results[result.id].append(result)
    return results


def judge_module(module: str, arguments: argparse.Namespace) -> int:
    """Judge the mutants of one module that have no verdict yet."""
    trial = Trial(module, coverage_record.read(arguments.record), arguments.budget)
    mutations = sample(trial.source, f"{arguments.seed}:{module}", arguments.count)
    known = read_results(arguments.results)
    left = [mutation for mutation in mutations if _is_open(known.get(trial.id_of(mutation), []), arguments.again)]
    if not left:
        return 0

    def work(forked: ForkedTests) -> None:
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder, arguments.results.open("a") as written:
            copy = Path(folder) / "src"
            shutil.copytree(mutants.SOURCE, copy)
            for mutation in left:
                result = trial.judge(mutation, forked, copy)
                written.write(json.dumps(asdict(result)) + "\n")
                written.flush()
                print(f"{result.verdict:9} {result.seconds:5.1f} s  {module}:{mutation.line}  {result.by}", flush=True)
                if result.verdict != "noticed":
                    print(result.diff, flush=True)

    return collect(trial.files(), work)


def _is_open(results: list[Result], again: bool) -> bool:
    return not results or (again and results[-1].verdict != "noticed")


def summary(modules: list[str], results: dict[str, list[Result]]) -> Iterator[str]:
    """Yield the figures of each module and of all: noticed at first, and noticed now."""
    sums: Counter[str] = Counter()
    for module in modules:
        of_module = [verdicts for verdicts in results.values() if verdicts[0].module == module]
        figures = Counter(
            mutants=len(of_module),
            first=sum(verdicts[0].verdict == "noticed" for verdicts in of_module),
            now=sum(verdicts[-1].verdict == "noticed" for verdicts in of_module),
        )
        sums += figures
        yield _line(module, figures)
    yield _line("all", sums)


def _line(name: str, figures: Counter[str]) -> str:
    count = max(figures["mutants"], 1)
    return (
        f"{name:24} {figures['mutants']:4} mutants  noticed at first {figures['first']:4}"
        f" ({figures['first'] / count:4.0%})  now {figures['now']:4} ({figures['now'] / count:4.0%})"
    )


def _absolute(path: str) -> Path:
    return Path(os.environ.get(STARTED_IN, "."), path).resolve()


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="mutants.py --random", description=__doc__.splitlines()[0])
    parser.add_argument("--random", action="store_true", help="judge random mutants")
    parser.add_argument("--module", nargs="+", required=True, metavar="M", help="modules, such as check/updates")
    parser.add_argument(
        "--record", type=_absolute, required=True, metavar="FILE", help="which tests execute which lines"
    )
    parser.add_argument(
        "--tests", nargs="+", metavar="ARGUMENT", help="run these tests (arguments of pytest) and record"
    )
    parser.add_argument("--results", type=_absolute, metavar="FILE", help="verdicts, one JSON object per line")
    parser.add_argument("--seed", type=int, default=73011, metavar="N", help="seed of the sample (default 73011)")
    parser.add_argument("--count", type=int, default=40, metavar="N", help="mutants of each module (default 40)")
    parser.add_argument("--budget", type=float, default=BUDGET, metavar="S", help="seconds of tests for one mutant")
    parser.add_argument("--again", action="store_true", help="judge mutants once more that no test noticed")
    arguments = parser.parse_args(words)
    environment = {
        **os.environ,
        "MALLOC_ARENA_MAX": "2",
        IN_MODULE: "1",
        STARTED_IN: os.getcwd(),
    }
    environment["PYTHONPATH"] = str(mutants.SOURCE)
    if IN_MODULE not in os.environ:
        # Each module gets a process of its own, with the variables that count when a process starts.
        command = [sys.executable, str(Path(mutants.__file__)), *words, "--module"]
        for module in [None] if arguments.tests else arguments.module:
            chosen = [module] if module else arguments.module
            code = subprocess.call([*command, *chosen], env=environment, cwd=mutants.ROOT)
            if code:
                return code
        if arguments.results:
            print("\n".join(summary(arguments.module, read_results(arguments.results))))
        return 0
    if arguments.tests:
        files = [Path(mutants.PACKAGE) / f"{module}.py" for module in arguments.module]
        return coverage_record.record(mutants.SOURCE, files, arguments.record, arguments.tests)
    if not arguments.results:
        parser.error("--results is missing")
    return judge_module(arguments.module[0], arguments)
