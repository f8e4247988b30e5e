"""What exceptions of other people's code say, as text that can be shown and that every store keeps.

Whoever puts such an exception into a message of ours asks here: its `__str__` may raise, its text may hold what is
no text, and one of a group says nothing of what went wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_MOST_OF_GROUP: Final = 5
_MOST_OF_ONE: Final = 300
_NO_TEXT = "[\0\ud800-\udfff]"


def passes(error: BaseException) -> bool:
    """Whether what was just caught is, beside CancelledError, no failure of the code that it came out of: Ctrl-C, which
    Python raises wherever the process just is, and that the coroutine which caught it is closed. All else is one,
    SystemExit too: a tool does not end the process.

    Who closes a coroutine closes what it awaits first, and then raises in it a GeneratorExit of its own: one that came
    through other frames was raised there.
    """
    if not isinstance(error, GeneratorExit):
        return isinstance(error, KeyboardInterrupt)
    first = trace = error.__traceback__
    while first is not None and trace is not None:
        if trace.tb_frame is not first.tb_frame:
            return False
        trace = trace.tb_next
    return True


def text_of(error: BaseException | str) -> str:
    """Its text, with U+FFFD for what is no character, and what members of a group say; empty where there is none."""
    try:
        text = str(error).strip()
    except Exception:  # noqa: BLE001 - its own code fails to say what is wrong; its type still does
        return ""
    if isinstance(error, BaseExceptionGroup):
        text = f"{text}: {_members(error)}"
    return text if text.isascii() and "\0" not in text else re.sub(_NO_TEXT, "\ufffd", text)


def with_type(error: BaseException) -> str:
    """Its type and its text."""
    text = text_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _members(group: BaseExceptionGroup[BaseException]) -> str:
    """The first of those that are no groups themselves, each shortened."""
    found = list(map(with_type, _leaves(group)))
    told = [text if len(text) <= _MOST_OF_ONE else f"{text[:_MOST_OF_ONE]}…" for text in found[:_MOST_OF_GROUP]]
    more = len(found) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more else "")


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    waiting = [*reversed(group.exceptions)]
    while waiting:
        one = waiting.pop()
        if isinstance(one, BaseExceptionGroup):
            waiting += reversed(one.exceptions)
        else:
            yield one
