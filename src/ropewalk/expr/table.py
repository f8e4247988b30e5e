"""The table of functions: what a function is, and the decorator that adds one.

`FUNCTIONS` is filled by `functions` and `reshape`; whoever looks a function up imports it from `calls`,
which has both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from ..errors import ExpressionError
from ..frozen import dataclass
from ..values import Json
from .operators import kind_of

Run = TypeVar("Run", bound=Callable[..., Json])


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function: `least` to `most` arguments (None: any number), `returns` a JSON Schema type
    name or None when it depends, `raw` to see missing, `budget` to get the budget first."""

    name: str
    run: Callable[..., Json]
    least: int
    most: int | None
    returns: str | None
    raw: bool = False
    budget: bool = False

    @property
    def counts(self) -> str:
        """How many arguments, in words."""
        if self.most is None:
            return f"{self.least} or more arguments"
        if self.least == self.most:
            return f"{self.least} argument{'s' if self.least != 1 else ''}"
        return f"{self.least} to {self.most} arguments"


FUNCTIONS: Final[dict[str, Function]] = {}
"""Every function by name."""

MANY: Final = -1


def function(
    *names: str | int, returns: str | None = None, raw: bool = False, budget: bool = False
) -> Callable[[Run], Run]:
    """Register a pure function: `@function("name", "alias", least, most)`; `most` defaults to
    `least`, MANY means no limit."""
    words = [name for name in names if isinstance(name, str)]
    counts = [name for name in names if isinstance(name, int)]
    least, most = counts[0], counts[-1]

    def register(run: Run) -> Run:
        for name in words:
            FUNCTIONS[name] = Function(
                name=name, run=run, least=least, most=None if most == MANY else most,
                returns=returns, raw=raw, budget=budget,
            )  # fmt: skip
        return run

    return register


def wants(name: str, what: str, value: Json) -> ExpressionError:
    """The error of a function that was given the wrong type."""
    return ExpressionError(f"{name} needs {what}, not {kind_of(value)}")


def listed(name: str, value: Json) -> list[Json]:
    """A list argument; null counts as no elements."""
    if type(value) is list:
        return value
    if value is None:
        return []
    raise wants(name, "a list", value)
