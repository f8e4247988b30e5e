"""Slow expressions leave the event loop: they begin there, and start again in a thread when they take long.

Expressions have no side effects, so the beginning may be done twice. In the thread they have the seconds of `Budget`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ..deadline import in_thread
from ..expr.operators import Slow, in_slices
from ..ir import Getter, Step, whole
from ..values import Json
from .frame import SKIPPED, Frame


async def evaluated(get: Getter, frame: Frame) -> Json:
    """Return the value of an expression, from a thread when it takes longer than a slice of the event loop's time."""
    try:
        with in_slices():
            return get(frame)
    except Slow:
        return await in_thread(lambda: get(frame))


def offloaded(step: Step) -> Step:
    """Return the step whose getter may leave the event loop."""
    get, run_node = step.get, step.run
    if get is whole:
        return step  # it evaluates what it needs by itself

    async def compute(frame: Frame) -> Json:
        return await evaluated(get, frame)

    if run_node is None:
        return Step(whole, compute)
    return Step(whole, _followed(get, run_node))


def offloaded_condition(run_node: Callable[[Frame], Awaitable[Any]], when: Callable[[Frame], bool]) -> Any:
    """Return the start of a node whose condition may leave the event loop; a skipped node does nothing."""

    async def run(frame: Frame) -> Any:
        return await run_node(frame) if await evaluated(when, frame) else SKIPPED

    return run


def _followed(get: Getter, run_node: Callable[[Any], Awaitable[Any]]) -> Callable[[Frame], Awaitable[Any]]:
    async def run(frame: Frame) -> Any:
        return await run_node(await evaluated(get, frame))

    return run
