"""What every fuzzer shares: how a case is run, and what counts as a finding."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

SECONDS = 20
"""After so many seconds of CPU a case hangs; what other programs do to a busy machine does not count."""


class Hang(BaseException):
    """A case took too long. No `except Exception` of the code under test swallows it."""


@dataclass(frozen=True)
class Finding:
    """A case that must not be: `what` went wrong, at which line of Ropewalk, for which `case`."""

    what: str
    at: str
    case: str

    def __str__(self) -> str:
        return f"{self.what} at {self.at}\n    {self.case[:2000]!r}"


@contextmanager
def alarm(seconds: int = SECONDS) -> Iterator[None]:
    """Raise Hang inside when the block takes longer."""

    def ring(_: int, __: FrameType | None) -> None:
        raise Hang(f"more than {seconds} s of CPU")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def foreign(what: str, error: BaseException, case: str) -> Finding:
    """An exception that is none of Ropewalk's own."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/ropewalk/" in frame.filename]
    at = f"{frames[-1].filename.rpartition('/ropewalk/')[2]}:{frames[-1].lineno}" if frames else "?"
    return Finding(f"{what}: {type(error).__name__}: {str(error)[:200]}", at, case)


def judged(what: str, case: str, run: Callable[[], Any], allowed: type[Exception]) -> tuple[Any, Finding | None]:
    """Run a part of a case: its value, or None for an error that is allowed, and the finding for any other."""
    try:
        with alarm():
            return run(), None
    except allowed:
        return None, None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the finding
        return None, foreign(what, error, case)
