"""The scope in which closures are built: how names resolve, and how inner closures are built.

Where an expression has macros (or builds more than one text or list) closures get an *activation*
instead of the engine's frame: a tuple `(frame, budget, *bound values)` made for one evaluation; a
macro's body gets a longer tuple. Nothing mutable outlives an evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, Final, TypeAlias

from ..fast_dataclass import dataclass
from ..redaction import Redaction
from ..values import Json
from .accessors import Getter
from .ast import Expr, Fn, Path, Ref, Var
from .function_registry import FUNCTIONS
from .operators import MISSING, Budget, evaluation_error, kind_of

Resolve: TypeAlias = Callable[[Ref], tuple[Getter, Path]]
Test: TypeAlias = Callable[[Any], bool]
SecretsOf: TypeAlias = Callable[[Any], Redaction | None]

FRAME: Final = 0
BUDGET: Final = 1
_FIRST_SLOT: Final = 2

BOOLEAN: Final = frozenset(("&&", "||", "!", "==", "!=", "<", "<=", ">", ">=", "in"))
"""The operators that give true or false."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of one closure."""

    # Returns, for a reference, a getter of the base value and the rest of the path.
    resolve: Resolve
    # Builds the closure of an operand.
    make: Callable[[Expr, Scope], Getter]
    # True if closures get activations instead of frames.
    active: bool = False
    # The position of each bound name in an activation.
    slots: Mapping[str, int] = field(default_factory=dict)
    # The length of an activation here.
    size: int = _FIRST_SLOT
    # True if the closure runs once per element of a macro.
    in_body: bool = False
    # Returns the secrets of a frame.
    secrets: SecretsOf | None = None

    def bind(self, names: tuple[str, ...]) -> Scope:
        """Return the scope of a macro's body, where `names` are added to the activation."""
        added = {name: self.size + i for i, name in enumerate(names)}
        return replace(self, slots={**self.slots, **added}, size=self.size + len(names), in_body=True)

    @property
    def budget(self) -> Callable[[Any], Budget | None]:
        """Return the function that gets the budget of the evaluation from a frame."""
        return _active_budget if self.active else _no_budget

    def secrets_of(self, frame: Any) -> Redaction | None:
        """Return the secrets that functions must not change, from the argument of a closure."""
        return None if self.secrets is None else self.secrets(frame[FRAME] if self.active else frame)

    def operand(self, expr: Expr) -> Getter:
        """Build the closure of an operand: a missing value stays MISSING."""
        return self.make(expr, self)

    def value(self, expr: Expr) -> Getter:
        """Build the closure of a result: a missing value becomes null."""
        get = self.make(expr, self)
        if not (isinstance(expr, Ref | Var) or (isinstance(expr, Fn) and expr.name in ("[]", "?:"))):
            return get

        def null_if_missing(frame: Any) -> Json:
            value = get(frame)
            return None if value is MISSING else value

        return null_if_missing

    def test(self, expr: Expr) -> Test:
        """Build the closure of a condition: false, null and missing are False."""
        get = self.make(expr, self)
        if isinstance(expr, Fn):
            known = FUNCTIONS.get(expr.name)
            if expr.name in BOOLEAN or (known is not None and known.returns == "boolean"):
                return get

        def decide(frame: Any) -> bool:
            value = get(frame)
            if value is True:
                return True
            if value is False or value is None or value is MISSING:
                return False
            raise evaluation_error(f"a condition must be true or false, not {_describe(value)}", expr)

        return decide


def _describe(value: Json) -> str:
    kind = kind_of(value)
    short = kind == "number" or (kind == "string" and len(value) < 40)
    return f"{kind} ({value!r})" if short else kind


def _active_budget(frame: Any) -> Budget:
    budget: Budget = frame[BUDGET]
    return budget


def _no_budget(frame: Any) -> None:
    return None
