"""Work that makes very many objects, all of which stay: the garbage collector would look through them
again and again and find nothing, for a third of the time that a large definition takes.

It is switched off for the whole process meanwhile, for as long as one definition takes: well under a
second, within the limits on definitions.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


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
