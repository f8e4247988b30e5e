"""The rows of a run in order of their commit, what they offer to a later run, and the difference of two journals.

| kind | status | value |
|---|---|---|
| `start` | `ok` | the versions of the language, of Python and of its time zones; digests of the text; the seed |
| `call` | `ok`, `failed` | the result, or the failure `{type, message, classes}` |
| `call` | `cancelled` | null: the call was in progress when the program cancelled it |
| `call` | `late`, `late_failed` | how a cancelled call ended after all; it is never delivered |
| `call`, `question` | `offer` | a result of an earlier run or attempt that the program may ask for again |
| `timer` | `due`, `ok` | when it is due, in seconds since the epoch; that it fired |
| `question` | `due`, `ok`, `failed` | until when it waits, if there is a limit; the answer; that nobody answered |
| `clock` | `ok` | the seconds |
| `printed` | `ok` | what the program printed in one turn; the arguments say how many texts it has printed so far |

Values and arguments are JSON texts: a journal of many rows is few objects.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import sys
import zoneinfo
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from ..errors import UnknownLanguage
from ..fast_dataclass import dataclass
from ..values import Json

LANGUAGE: Final = 2
"""The version of the language; a journal names the one that wrote it."""
KEPT_SECONDS: Final = 1.0
"""Timers of so many seconds write when they are due, so that a resumed run keeps it."""
DELIVERED: Final = frozenset(("ok", "failed"))
_SUCCEEDED: Final = frozenset(("ok", "late", "offer"))


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a journal."""

    # path: The path of the step; empty for an offer that is not bound to a place.
    # kind: `start`, `call`, `timer`, `question`, `clock` or `printed`.
    # name: The tool, or what kind of timer, question or clock it is.
    # arguments: The arguments as JSON.
    # status: How it ended; the table of this module lists the words.
    # value: The value as JSON.
    # after: How many rows the program knew when it requested the step.
    # taken: Whether the result is that of an offer.

    path: str
    kind: str
    name: str
    arguments: str
    status: str
    value: str = "null"
    after: int = field(default=0, compare=False)
    taken: bool = field(default=False, compare=False)

    def to_json(self) -> list[Json]:
        """Return the row as a JSON array."""
        return [self.path, self.kind, self.name, self.arguments, self.status, self.value]

    @property
    def key(self) -> tuple[str, str, str]:
        """The tool or question, with its arguments."""
        return self.kind, self.name, self.arguments


class Diverged(Exception):
    """A replayed program does something other than the journal recorded, so nothing new was called."""

    # path: The path of the step.
    # recorded: What was recorded there.
    # requested: What the program requests; None if it requests nothing there.

    def __init__(self, path: str, recorded: str, requested: str | None) -> None:
        self.path, self.recorded, self.requested = path, recorded, requested
        now = f"now requests {requested}" if requested is not None else "does not request it"
        super().__init__(f"the run recorded {recorded}, and the program {now}")


class Offers:
    """Recorded results that are taken by their path, else by tool and arguments, first in first out."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._by_key: dict[tuple[str, str, str], deque[Row]] = defaultdict(deque)
        for row in rows:
            if row.status == "offer":
                self._by_key[row.key].append(row)

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def take(self, path: str, key: tuple[str, str, str]) -> Row | None:
        """Return the offer for a step and remove it; None if there is none."""
        rows = self._by_key.get(key)
        if not rows:
            return None
        row = next((row for row in rows if row.path == path), None)
        if row is None and key[0] == "call":
            row = rows[0]
        if row is not None:
            rows.remove(row)
        return row

    def left(self) -> list[Row]:
        """Return the offers that nobody took."""
        return [row for rows in self._by_key.values() for row in rows]


def diff(before: Sequence[Row], after: Sequence[Row]) -> list[tuple[Row | None, Row | None]]:
    """Return the calls of two journals as pairs: by path, then by tool and arguments; None where one has none."""
    left, right = ([row for row in rows if row.kind == "call" and row.status != "offer"] for rows in (before, after))
    partners: dict[int, Row] = {}
    for key in (lambda row: (row.path, row.key, row.status), lambda row: row.key, lambda row: (row.path, row.name)):
        open_rows: dict[Any, deque[Row]] = defaultdict(deque)
        matched = {id(row) for row in partners.values()}
        for row in right:
            if id(row) not in matched:
                open_rows[key(row)].append(row)
        for row in left:
            if id(row) not in partners and open_rows[key(row)]:
                partners[id(row)] = open_rows[key(row)].popleft()
    matched = {id(row) for row in partners.values()}
    pairs: list[tuple[Row | None, Row | None]] = [(row, partners.get(id(row))) for row in left]
    return pairs + [(None, row) for row in right if id(row) not in matched]


class RowOrder:
    """The order of the calls of a program: a call comes after those whose rows the program knew when it made it."""

    # Two tasks that were in progress at the same time have no order, and neither have their calls.

    def __init__(self, rows: Iterable[Row]) -> None:
        calls = ((number, row) for number, row in enumerate(rows) if row.kind == "call" and row.status in _SUCCEEDED)
        # A step that took an offer of its own path has two rows, of which the later one counts.
        self._spans = {row.path: (min(row.after, number), number) for number, row in calls}
        self._tasks: dict[tuple[str, ...], tuple[int, int]] = {}
        for path, span in self._spans.items():
            task = _task_of(path)
            for depth in range(1, len(task) + 1):
                begin, end = self._tasks.get(task[:depth], span)
                self._tasks[task[:depth]] = min(begin, span[0]), max(end, span[1])

    def number(self, path: str) -> int:
        """Return the number of the row of a call."""
        return self._spans[path][1]

    def precedes(self, first: str, second: str) -> bool:
        """Return True if the program made the call at the second path only after the one at the first path."""
        return self._span(first, second)[1] < self._span(second, first)[0]

    def _span(self, path: str, other: str) -> tuple[int, int]:
        """Return the rows between which a call was in progress, or the task that makes it and not the other call."""
        task, shared = _task_of(path), _task_of(other)
        depth = next((at for at, (a, b) in enumerate(zip(task, shared, strict=False)) if a != b), len(shared))
        return self._tasks[task[: depth + 1]] if depth < len(task) else self._spans[path]


def _task_of(path: str) -> tuple[str, ...]:
    return tuple(path.partition("/")[0].split("."))


def start_row(seed: int, digests: Mapping[str, str]) -> Row:
    """Return the first row of a run."""
    start = {
        "language": LANGUAGE,
        "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "tzdata": tzdata_version(),
        "digests": dict(digests),
        "seed": seed,
    }
    return Row("", "start", "", "null", "ok", json.dumps(start))


def digests_of(text: str) -> dict[str, str]:
    """Return the digests that the first row of a run names: of the text, whose helpers and constants are in it."""
    return {"text": hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]}


def read_start(row: Row) -> dict[str, Any]:
    """Return what the first row of a run says."""
    # Raises UnknownLanguage. Another minor version of Python may resume a run.
    start: dict[str, Any] = json.loads(row.value)
    if start["language"] != LANGUAGE:
        raise UnknownLanguage(start["language"], LANGUAGE)
    return start


@functools.cache
def tzdata_version() -> str:
    """Return the version of the time zone data that programs read, or `unknown`."""
    for folder in zoneinfo.TZPATH:
        with contextlib.suppress(OSError), Path(folder, "tzdata.zi").open("rb") as file:
            first = file.readline().decode(errors="ignore").strip()
            if first.startswith("# version "):
                return first.removeprefix("# version ")
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version("tzdata")
    return "unknown"


def step_key(path: str) -> str:
    """Return the path of a step (`0.2/14:12#3`) without what has a meaning in paths of nodes (`0.2-14:12.3`)."""
    return path.replace("/", "-").replace("#", ".")


def line_of(path: str) -> int:
    """Return the line of the program at which a step was requested; 0 for a path without one."""
    return int(path.partition("/")[2].partition(":")[0] or 0)
