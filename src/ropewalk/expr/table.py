"""The table of functions: what a function is, and the decorator that adds one.

`FUNCTIONS` is filled by `functions` and `reshape`; whoever looks a function up imports it from `calls`,
which has both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from ..errors import ExpressionError
from ..frozen import dataclass
from ..values import Json
from .operators import kind_of

Run = TypeVar("Run", bound=Callable[..., Json])
Positions: TypeAlias = Sequence[int]
"""Of arguments."""
EVERY: Final = range(1_000)
"""The positions of all arguments, however many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function: `least` to `most` arguments (None: any number), `returns` a JSON Schema type
    name or None when it depends, `raw` to see missing, `budget` to get the budget first.

    Arguments that hold a secret are refused, unless the function declares what it does with them: `keeps` are the
    positions whose texts are whole in the result, `asks` those of which nothing is in the result. A function that
    `writes_json` keeps texts as JSON spells them.
    """

    name: str
    run: Callable[..., Json]
    least: int
    most: int | None
    returns: str | None
    raw: bool = False
    budget: bool = False
    keeps: Positions = ()
    asks: Positions = ()
    writes_json: bool = False

    @property
    def refuses(self) -> Positions:
        """The positions of the arguments that must hold no secret; EVERY for all that are not kept or asked about."""
        if self.keeps is EVERY or self.asks is EVERY:
            return ()
        return EVERY if self.most is None else [i for i in range(self.most) if i not in (*self.keeps, *self.asks)]

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
    *names: str | int, returns: str | None = None, raw: bool = False, budget: bool = False,
    keeps: Positions = (), asks: Positions = (), writes_json: bool = False,
) -> Callable[[Run], Run]:  # fmt: skip
    """Register a pure function: `@function("name", "alias", least, most)`; `most` defaults to
    `least`, MANY means no limit. What it may do with secrets, `Function` says."""
    words = [name for name in names if isinstance(name, str)]
    counts = [name for name in names if isinstance(name, int)]
    least, most = counts[0], counts[-1]

    def register(run: Run) -> Run:
        for name in words:
            FUNCTIONS[name] = Function(
                name=name, run=run, least=least, most=None if most == MANY else most,
                returns=returns, raw=raw, budget=budget, keeps=keeps, asks=asks, writes_json=writes_json,
            )  # fmt: skip
        return run

    return register


def makes_another(name: str, secret: str) -> str:
    """Say that a function would make another text of a secret, given the secret's reference."""
    what = f"{name!r} would make another text of {secret}, which is not known to be secret and written down"
    return f"{what}; give the secret as it is, and let the tool change it"


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
