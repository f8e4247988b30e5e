"""Run tests again and again in forks of one process, which has imported and collected everything.

A fork can run with a changed module: the functions of the module get the code of the changed text. What a module
does while it is imported cannot be changed in this way.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Limits:
    """What one run of tests may use: seconds in all and for each test, bytes of address space per process."""

    seconds: float
    memory: int
    seconds_of: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """New code for old code, and the functions that can have the old one."""

    code: dict[types.CodeType, types.CodeType] = field(default_factory=dict)
    functions: list[types.FunctionType] = field(default_factory=list)

    def is_possible(self) -> bool:
        """Return True if some function has code that changes."""
        return any(function.__code__ in self.code for function in self.functions)

    def make(self) -> None:
        """Give the functions of this process their new code."""
        for function in self.functions:
            if function.__code__ in self.code:
                function.__code__ = self.code[function.__code__]


@dataclass(frozen=True)
class Outcome:
    """Result of a run: `test` is the one that failed, or that ran when the process died or the time was up.

    `word` is "passed", "failed", "died" or "late"; `seconds` is the time of the run, `in_test` that of the last test.
    """

    word: str
    test: str
    seconds: float
    in_test: float
    output: str = ""
    count: int = 0


class ForkedTests:
    """A pytest plugin that collects tests and hands itself to a function, which runs them in forks."""

    def __init__(self, work: Callable[[ForkedTests], None]) -> None:
        self._work = work
        self._items: dict[str, pytest.Item] = {}
        self._session: pytest.Session | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._session = session
        self._items = {item.nodeid: item for item in session.items}
        gc.unfreeze()  # `change_of` looks through what conftest.py has frozen
        self._work(self)
        return True

    def __contains__(self, test: str) -> bool:
        return test in self._items

    def run(
        self,
        tests: list[str],
        limits: Limits,
        environment: dict[str, str],
        change: Change | None = None,
    ) -> Outcome:
        """Run tests in a fork until one fails.

        Args:
            tests: Ids of collected tests, in the order in which they run.
            limits: Time and memory.
            environment: Further environment variables of the run.
            change: What is different in the fork.

        Returns:
            What happened. Processes that the tests started may still be there.
        """
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            try:
                # Files of tests that change the process they are loaded in spare this one.
                os.environ.update({"PYTEST_PROCESS": str(os.getpid()), **environment})
                resource.setrlimit(resource.RLIMIT_AS, (limits.memory, limits.memory))
                (change or Change()).make()
                self._be_fork([self._items[test] for test in tests], writing)
            finally:
                os._exit(1)
        os.close(writing)
        try:
            return _follow(reading, limits)
        finally:
            os.close(reading)
            for kill in (os.killpg, os.kill):  # it may not have made its group yet
                try:
                    kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            os.waitpid(pid, 0)

    def _be_fork(self, items: list[pytest.Item], writing: int) -> None:
        os.setsid()
        silence = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(silence, number)
        gc.freeze()
        session = self._session
        assert session is not None
        plugins = session.config.pluginmanager
        plugins.unregister(name="terminalreporter")
        reports = _Reports(writing)
        plugins.register(reports)
        for item, following in zip(items, [*items[1:], None], strict=True):
            reports.send(["began", item.nodeid])
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if reports.has_failed:
                break
        else:
            reports.send(["passed"])
        os._exit(0)


class _Reports:
    """Write what happens in a fork to its pipe, one JSON list per line."""

    def __init__(self, writing: int) -> None:
        self._writing = writing
        self.has_failed = False

    def send(self, message: list[str]) -> None:
        os.write(self._writing, json.dumps(message).encode() + b"\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.has_failed:
            self.has_failed = True
            end = "\n".join(report.longreprtext.splitlines()[-12:])
            self.send(["failed", report.nodeid, end[-2000:]])


def _follow(reading: int, limits: Limits) -> Outcome:
    """Read the messages of a fork until it ends or the time is up."""
    began = test_began = time.monotonic()
    test, count, waiting = "", 0, b""
    while True:
        end = min(began + limits.seconds, test_began + limits.seconds_of.get(test, limits.seconds))
        left = end - time.monotonic()
        ready = left > 0 and select.select([reading], [], [], left)[0]
        now = time.monotonic()
        if not ready:
            return Outcome("late", test, now - began, now - test_began, count=count)
        data = os.read(reading, 65536)
        if not data:
            return Outcome("died", test, now - began, now - test_began, count=count)
        *lines, waiting = (waiting + data).split(b"\n")
        for line in lines:
            word, *rest = json.loads(line)
            if word == "began":
                test, test_began, count = rest[0], now, count + 1
            else:
                output = rest[1] if word == "failed" else ""
                return Outcome(word, test, now - began, now - test_began, output, count)


def change_of(file: Path, old: str, new: str) -> Change:
    """Return the change from one text of a module to another, for `ForkedTests.run`."""
    return Change(_changed_code(file, old, new), _functions_of(file))


def _functions_of(file: Path) -> list[types.FunctionType]:
    """Return every function that exists in this process and whose code is in a file."""
    return [
        thing
        for thing in gc.get_objects()
        if type(thing) is types.FunctionType and thing.__code__.co_filename == str(file)
    ]


def _changed_code(file: Path, old: str, new: str) -> dict[types.CodeType, types.CodeType]:
    """Return the code of functions that differs between two texts of a module, old to new.

    It is empty if the difference is in what the module or a class does while it is imported.
    """
    pairs = [
        (before, after)
        for before, after in _pairs(*(compile(text, str(file), "exec", dont_inherit=True) for text in (old, new)))
        if before != after and before.co_flags & _FUNCTION
    ]
    return dict(pairs)


_FUNCTION = 0x2  # CO_NEWLOCALS: the code of a function, not of a module or a class


def _pairs(old: types.CodeType, new: types.CodeType) -> Iterator[tuple[types.CodeType, types.CodeType]]:
    yield old, new
    inner = [[part for part in code.co_consts if isinstance(part, types.CodeType)] for code in (old, new)]
    if len(inner[0]) == len(inner[1]):  # else the change has removed a function, and the one around it differs
        for before, after in zip(*inner, strict=True):
            yield from _pairs(before, after)


def collect(arguments: list[str], work: Callable[[ForkedTests], None]) -> int:
    """Collect tests, call a function with them, and return the exit code of pytest."""
    options = ["-n", "0", "-q", "-s", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    return int(pytest.main([*options, *arguments], plugins=[ForkedTests(work)]))
