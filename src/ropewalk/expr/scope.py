"""What a closure is built against: how names resolve, and how to build the closures inside it.

Where an expression has macros (or builds more than one text or list) closures get an *activation*
instead of the engine's frame: a tuple `(frame, budget, *bound values)` made for one evaluation; a
macro's body gets a longer tuple. Nothing mutable outlives an evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, Final, TypeAlias

from ..frozen import dataclass
from ..redaction import Redaction
from ..values import Json
from .ast import Expr, Fn, Path, Ref, Var
from .budget import Budget
from .getters import Getter
from .operators import MISSING, complain, kind_of
from .table import FUNCTIONS

Resolve: TypeAlias = Callable[[Ref], tuple[Getter, Path]]
Test: TypeAlias = Callable[[Any], bool]
SecretsOf: TypeAlias = Callable[[Any], Redaction | None]

FRAME: Final = 0
BUDGET: Final = 1
_FIRST_SLOT: Final = 2

BOOLEAN: Final = frozenset(("&&", "||", "!", "==", "!=", "<", "<=", ">", ">=", "in"))
"""The operators whose value is always true or false."""


@dataclass(frozen=True, slots=True)
class Scope:
    """`make` builds an operand, `active` says that frames are activations, `slots` where each
    bound name sits in one, `in_body` that the closure runs once per element, `secrets` which ones a frame knows."""

    resolve: Resolve
    make: Callable[[Expr, Scope], Getter]
    active: bool = False
    slots: Mapping[str, int] = field(default_factory=dict)
    size: int = _FIRST_SLOT
    in_body: bool = False
    secrets: SecretsOf | None = None

    def bind(self, names: tuple[str, ...]) -> Scope:
        """The scope of a macro's body: `names` come next in the activation."""
        added = {name: self.size + i for i, name in enumerate(names)}
        return replace(self, slots={**self.slots, **added}, size=self.size + len(names), in_body=True)

    @property
    def budget(self) -> Callable[[Any], Budget | None]:
        """Gets the budget of the evaluation from a frame."""
        return _active_budget if self.active else _no_budget

    def secrets_of(self, frame: Any) -> Redaction | None:
        """The secrets that must not be made another text, given what closures get."""
        return None if self.secrets is None else self.secrets(frame[FRAME] if self.active else frame)

    def operand(self, expr: Expr) -> Getter:
        """The closure of `expr` inside another expression: a missing value stays MISSING."""
        return self.make(expr, self)

    def value(self, expr: Expr) -> Getter:
        """The closure of `expr` as a result: missing is null."""
        get = self.make(expr, self)
        if not (isinstance(expr, Ref | Var) or (isinstance(expr, Fn) and expr.name in ("[]", "?:"))):
            return get

        def settled(frame: Any) -> Json:
            value = get(frame)
            return None if value is MISSING else value

        return settled

    def test(self, expr: Expr) -> Test:
        """The closure of `expr` as a condition: false, null and missing do not hold."""
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
            raise complain(f"a condition must be true or false, not {_told(value)}", expr)

        return decide


def _told(value: Json) -> str:
    kind = kind_of(value)
    short = kind == "number" or (kind == "string" and len(value) < 40)
    return f"{kind} ({value!r})" if short else kind


def _active_budget(frame: Any) -> Budget:
    found: Budget = frame[BUDGET]
    return found


def _no_budget(frame: Any) -> None:
    return None
