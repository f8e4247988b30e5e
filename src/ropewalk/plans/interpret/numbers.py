"""Decimal numbers and time zones of programs."""

from __future__ import annotations

import decimal
import zoneinfo
from typing import Any, Final

from ...expr.python.builtins import TYPES
from ...expr.python.evaluation import CALLABLE_TYPES
from ...expr.python.method_table import METHODS
from ...expr.python.modules import Constant
from ...expr.python.values import Refused

_LARGEST_EXPONENT: Final = 4_000
_METHODS: Final = (
    "quantize normalize to_integral_value copy_abs copy_negate is_zero is_nan is_finite is_infinite is_signed sqrt "
    "compare max min ln log10 exp adjusted"
)


def _checked(value: Any) -> Any:
    """Return a number unless its digits would fill the memory when they are written."""
    if isinstance(value, decimal.Decimal) and value.is_finite() and abs(value.adjusted()) > _LARGEST_EXPONENT:
        raise Refused(f"a decimal number of more than {_LARGEST_EXPONENT:,} digits; use a float")
    return value


def _decimal(evaluation: Any, value: Any = "0") -> decimal.Decimal:
    evaluation.step(1 + (len(value) >> 6) if isinstance(value, str) else 1)
    made: decimal.Decimal = _checked(decimal.Decimal(value))
    return made


def _method(name: str) -> Any:
    native = getattr(decimal.Decimal, name)
    return lambda evaluation, value, *values, **named: _checked(native(value, *values, **named))


TYPES[decimal.Decimal] = CALLABLE_TYPES[decimal.Decimal] = _decimal
METHODS[decimal.Decimal] = {name: _method(name) for name in _METHODS.split()}
DECIMAL: Final[dict[str, Any]] = {
    "Decimal": Constant(decimal.Decimal),
    "InvalidOperation": Constant(decimal.InvalidOperation),
    **{name: Constant(getattr(decimal, name)) for name in dir(decimal) if name.startswith("ROUND_")},
}
ZONES: Final[dict[str, Any]] = {
    "ZoneInfo": lambda evaluation, key: evaluation.machine.zone(key),
    "ZoneInfoNotFoundError": Constant(zoneinfo.ZoneInfoNotFoundError),
}
