"""Work that makes very many objects, all of which stay: the garbage collector would look through them
again and again and find nothing, for a third of the time that a large definition takes.

It is switched off for the whole process meanwhile, for as long as one definition takes: well under a
second, within the limits on definitions. A process that does nothing but such work has it come seldom.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    import asyncio

P = ParamSpec("P")
R = TypeVar("R")
_SELDOM: Final = 20_000  # objects more than before until the youngest are looked through, instead of 700


def uncollected(work: Callable[P, R]) -> Callable[P, R]:
    """The same function, with the garbage collector off while it runs. Safe to nest, and from several
    threads: who has switched it off switches it on again."""

    @functools.wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if not gc.isenabled():
            return work(*args, **kwargs)
        gc.disable()
        try:
            return work(*args, **kwargs)
        finally:
            gc.enable()

    return run


def uncollected_turn(loop: asyncio.AbstractEventLoop) -> None:
    """The same for what is done until this loop, the running one, has control again."""
    if gc.isenabled():
        loop.call_soon(gc.enable)
        gc.disable()


@contextlib.contextmanager
def seldom_collected() -> Iterator[None]:
    """For a process that is ours, as a worker's: thousands of steps are under way at once, none of them garbage, and
    the collector would take a third of the time."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _SELDOM) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
