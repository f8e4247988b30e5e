"""The table of functions, and the decorator that adds one.

`functions` and `reshape` fill `FUNCTIONS`. Import it from `calls`, which loads both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from ..errors import ExpressionError
from ..fast_dataclass import dataclass
from ..values import Json
from .operators import kind_of

Run = TypeVar("Run", bound=Callable[..., Json])
Positions: TypeAlias = Sequence[int]
"""Positions of arguments, from 0."""
EVERY: Final = range(1_000)
"""The positions of all arguments, however many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function of the language."""

    name: str
    run: Callable[..., Json]
    # The least number of arguments.
    least: int
    # The most; None for no limit.
    most: int | None
    # A JSON Schema type, or None if it depends on the arguments.
    returns: str | None
    # True if it can get MISSING; otherwise missing is null.
    raw: bool = False
    # True if it gets the budget as its first argument.
    budget: bool = False
    # The arguments that are unchanged in the result, so that a secret in them stays recognisable.
    keeps: Positions = ()
    # The arguments of which nothing is in the result. Other arguments must not contain secrets.
    asks: Positions = ()
    # True if it writes texts as JSON.
    writes_json: bool = False

    @property
    def refuses(self) -> Positions:
        """Return the positions of the arguments that must not contain secrets."""
        if self.keeps is EVERY or self.asks is EVERY:
            return ()
        return EVERY if self.most is None else [i for i in range(self.most) if i not in (*self.keeps, *self.asks)]

    @property
    def counts(self) -> str:
        """Return the number of arguments in words."""
        if self.most is None:
            return f"{self.least} or more arguments"
        if self.least == self.most:
            return f"{self.least} argument{'s' if self.least != 1 else ''}"
        return f"{self.least} to {self.most} arguments"


FUNCTIONS: Final[dict[str, Function]] = {}
"""Every function of the language by name."""

MANY: Final = -1


def function(
    *names: str | int,
    returns: str | None = None,
    raw: bool = False,
    budget: bool = False,
    keeps: Positions = (),
    asks: Positions = (),
    writes_json: bool = False,
) -> Callable[[Run], Run]:
    """Register a pure function: `@function("name", "alias", least, most)`.

    Args:
        names: The names, then the least and the most number of arguments. `most` defaults to `least`; MANY means no
            limit.
        returns: A JSON Schema type, or None if it depends on the arguments.
        raw: True if it can get MISSING; otherwise missing is null.
        budget: True if it gets the budget as its first argument.
        keeps: The arguments that are unchanged in the result.
        asks: The arguments of which nothing is in the result.
        writes_json: True if it writes texts as JSON.

    Returns:
        The decorator, which returns the function unchanged.
    """
    words = [name for name in names if isinstance(name, str)]
    counts = [name for name in names if isinstance(name, int)]
    least, most = counts[0], counts[-1]

    def register(run: Run) -> Run:
        for name in words:
            FUNCTIONS[name] = Function(
                name=name,
                run=run,
                least=least,
                most=None if most == MANY else most,
                returns=returns,
                raw=raw,
                budget=budget,
                keeps=keeps,
                asks=asks,
                writes_json=writes_json,
            )
        return run

    return register


def secret_change_message(name: str, secret: str) -> str:
    """Return the message about a function that would change a secret."""
    reason = f"{name!r} would change {secret}, and the changed text would be recorded because redaction cannot find it"
    return f"{reason}; pass the secret unchanged and let the tool change it"


def wrong_type(name: str, expected: str, value: Json) -> ExpressionError:
    """Return the error of an argument with a wrong type."""
    return ExpressionError(f"{name} needs {expected}, not {kind_of(value)}")


def list_argument(name: str, value: Json) -> list[Json]:
    """Return a list argument; null counts as an empty list."""
    if type(value) is list:
        return value
    if value is None:
        return []
    raise wrong_type(name, "a list", value)
