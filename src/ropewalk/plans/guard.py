"""The guard judges every message of a child: a child says what a program asks for, and may say anything.

It knows what the parent gave to the program, and what the program has requested so far. Approvals, budgets and secrets
are judged where calls are made; the rows of a run are judged by its session.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator
from typing import Any, Final

from ..errors import InvalidValue
from ..values import check_json, parse_json
from . import messages as m

MAX_PRINTED: Final = 16_000_000
"""Characters that a program may print in one attempt."""
_MAX_PATH: Final = 10_000
_PATH: Final = re.compile(r"0(\.[0-9]+)*/[0-9]+:[a-z0-9_]+#[0-9]+")
_NAMES: Final[dict[type[Any], tuple[str, ...]]] = {
    m.Timer: ("sleep", "timeout"),
    m.Question: ("approve", "event"),
    m.Clock: ("now", "monotonic"),
}
_STATUSES: Final = frozenset(("completed", "failed", "stopped", "invalid", "unexpected"))


class Forged(Exception):
    """A child sent what no program can ask for."""


class TooMuchPrinted(Exception):
    """A program printed more than its run keeps."""


class Guard:
    """Judges the messages of one child for one program."""

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = tools
        self._paths: set[str] = set()
        self._open: set[str] = set()
        self._approvals: set[str] = set()
        self._failed: set[str] = set()
        self._uses: dict[str, int] = {}
        self._texts = self._printed = 0

    def deliver(self, delivery: m.Delivery) -> None:
        """Note a delivery that the child takes."""
        if delivery.path in self._open:
            self._open.discard(delivery.path)
            if not delivery.ok or (delivery.path in self._approvals and not _is_approved(delivery.value)):
                self._failed.add(delivery.path)

    def turn(self, values: Any) -> list[m.Message]:
        """Return the messages of one turn, the last of which says that the program is blocked or has ended."""
        # Raises Forged.
        if not isinstance(values, list) or not values:
            raise Forged
        last = len(values) - 1
        return list(self._judged(values, last))

    def clock(self, value: Any) -> m.Clock:
        """Return the request of a clock."""
        # Raises Forged.
        message = _message(value)
        if not isinstance(message, m.Clock):
            raise Forged
        self._new_path(message)
        return message

    def _judged(self, values: list[Any], last: int) -> Iterator[m.Message]:
        for index, value in enumerate(values):
            message = _message(value)
            if isinstance(message, m.Blocked | m.Ended) is not (index == last):
                raise Forged
            match message:
                case m.Call():
                    message = self._call(message)
                case m.Timer() | m.Question():
                    self._request(message)
                case m.Cancel():
                    if message.path not in self._open:
                        raise Forged
                    self._open.discard(message.path)
                case m.Printed():
                    self._text(message)
                case m.Blocked():
                    if not self._open:
                        raise Forged
                case m.Ended():
                    self._end(message)
                case _:
                    raise Forged
            yield message

    def _new_path(self, message: Any) -> None:
        path = message.path
        if len(path) > _MAX_PATH or path in self._paths or not _PATH.fullmatch(path):
            raise Forged
        if message.__class__ in _NAMES and message.name not in _NAMES[message.__class__]:
            raise Forged
        self._paths.add(path)

    def _request(self, message: m.Request) -> None:
        self._new_path(message)
        self._open.add(message.path)
        if isinstance(message, m.Timer) and not (math.isfinite(message.seconds) and message.seconds > 0):
            raise Forged
        if isinstance(message, m.Question):
            if not 0 <= (message.seconds or 0) < math.inf:
                raise Forged
            if message.name == "approve":
                self._approvals.add(message.path)

    def _call(self, call: m.Call) -> m.Call:
        """Return the call with an id and arguments that the child did not write."""
        self._request(call)
        arguments = _json(call.arguments)
        if call.tool not in self._tools or not isinstance(arguments, dict):
            raise Forged
        count = self._uses[call.tool] = self._uses.get(call.tool, 0) + 1
        return m.Call(call.path, m.short_id(call.tool, count), call.tool, json.dumps(arguments))

    def _text(self, printed: m.Printed) -> None:
        self._printed += len(printed.text)
        if printed.number != self._texts:
            raise Forged
        if self._printed > MAX_PRINTED:
            raise TooMuchPrinted
        self._texts += 1

    def _end(self, ended: m.Ended) -> None:
        _json(ended.result)
        is_known = all(isinstance(path, str) and path in self._failed for path in ended.failed)
        if ended.status not in _STATUSES or not is_known or ended.line < 0:
            raise Forged
        for problem in ended.problems:
            types = {"suggestion": str, "line": int, "column": int, "message": str}
            fields = {"suggestion": "", **problem} if type(problem) is dict else {}
            if {name: type(item) for name, item in fields.items()} != types:
                raise Forged


def _is_approved(answer: str) -> bool:
    """Return True for the answer of an approval, as JSON, with which a program continues."""
    value = json.loads(answer)
    return value is True or (isinstance(value, dict) and value.get("approved") is True)


def _message(value: Any) -> m.Message:
    try:
        return m.from_json(value)
    except InvalidValue:
        raise Forged from None


def _json(text: str) -> Any:
    """Return the value of JSON that a store can keep."""
    try:
        return check_json(parse_json(text))
    except (InvalidValue, ValueError):
        raise Forged from None
