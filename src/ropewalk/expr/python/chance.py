"""Choices by chance: functions of `random` as functions of one journaled number from 0 to 1."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from .evaluation import Evaluation
from .values import Refused


def _chooser(name: str) -> Callable[..., Any]:
    def choose(evaluation: Evaluation, seed: float, *args: Any, **options: Any) -> Any:
        if name in ("choice", "choices", "sample") and args:
            args = evaluation.collect(args[0]), *args[1:]
        count = options.get("k", args[1] if name == "sample" and len(args) > 1 else 0)
        if isinstance(count, int) and count > 100_000:
            raise Refused(f"random.{name} of {count} elements; choose fewer")
        evaluation.reserve(64 * count if isinstance(count, int) else 0)
        return getattr(random.Random(seed), name)(*args, **options)

    return choose


CHOICES: Final = ("choice", "choices", "randint", "randrange", "sample", "uniform")
"""The functions of `random` that a program may call, in addition to `random.random`."""
CHANCE: Final[dict[str, Callable[..., Any]]] = {f"{name}·": _chooser(name) for name in CHOICES}
"""Each choice by a name that no program has. It takes the journaled number first."""
