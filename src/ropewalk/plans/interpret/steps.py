"""The steps of a program: their paths, their short ids, and the requests that they make.

A path is the task, the line and column, and how often the task came there: `0.2/14:12#3`. A short id is the name of the
tool and its number in the run: `get_order`, `get_order-2`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import messages as m
from .futures import Step

if TYPE_CHECKING:
    from .machine import Task


class Steps:
    """The requests of a program."""

    # current: The running task.
    # waiting: The steps that the host has not ended, by path.
    # cancelled: The paths of the steps that the program cancelled.
    # outbox: Messages for the host.

    current: Task

    def __init__(self) -> None:
        self.waiting: dict[str, Step] = {}
        self.cancelled: set[str] = set()
        self.outbox: list[m.Message] = []
        self.tools_of_steps: dict[str, str] = {}
        self._uses: dict[str, int] = {}

    def path(self, place: str) -> str:
        """Return the path of a step that begins at a place of the text."""
        task = self.current
        count = task.visits.get(place, 0) + 1
        task.visits[place] = count
        return f"{task.id}/{place}#{count}"

    def call(self, tool: str, arguments: str, place: str) -> Step:
        """Request a call of a tool."""
        count = self._uses.get(tool, 0) + 1
        self._uses[tool] = count
        path = self.path(place)
        self.tools_of_steps[path] = tool
        return self._request(path, m.Call(path, m.short_id(tool, count), tool, arguments))

    def timer(self, name: str, seconds: float, place: str) -> Step:
        """Request a timer."""
        path = self.path(place)
        return self._request(path, m.Timer(path, name, seconds))

    def question(self, name: str, text: str, seconds: float | None, place: str) -> Step:
        """Request an answer, for which the program waits some seconds."""
        path = self.path(place)
        return self._request(path, m.Question(path, name, text, seconds))

    def _request(self, path: str, request: m.Request) -> Step:
        step: Any = Step(self, path)  # type: ignore[arg-type]  # the machine is these steps
        self.waiting[path] = step
        self.outbox.append(request)
        return step  # type: ignore[no-any-return]

    def cancel_step(self, step: Step) -> None:
        """Request that the host aborts a step that no task waits for."""
        del self.waiting[step.path]
        self.cancelled.add(step.path)
        self.outbox.append(m.Cancel(step.path))
