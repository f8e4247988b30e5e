"""References: what stands for a value that will be there when the flow runs.

Attributes, items, operators and calls of the language's functions make expressions, as in the
language itself: `hits[0].url`, `pages.length() > 2`, `hits.filter(lambda hit: hit.score > 0.5)`,
`f"about {topic}"`. Refused, at the line: whatever would ask for the value now (`if`, `and`, `len`,
`for`, `in`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from ..expr.ast import Expr, Fn, Lit, binary, select
from .function import call
from .values import expression, marked, mistake, readable

T = TypeVar("T", covariant=True)
X = TypeVar("X")
Y = TypeVar("Y")


if TYPE_CHECKING:
    # A reference stands for a value that no type checker knows yet, so it fits every parameter of a tool.
    _AnyValue = Any
else:
    _AnyValue = object


class Ref(Generic[T], _AnyValue):  # type: ignore[misc]
    """A value of the run: the input, the output of a node, an element, or what is computed from them.

    The expression is in `_expr`; its references still carry the scope they were made in. Names that
    a value has are read as attributes; one that begins with `_`, or that a type checker takes for a
    function of the language, as an item: `hit["filter"]`.
    """

    __slots__ = ("_expr", "_holder", "_name")

    def __init__(self, expr: Expr, holder: Ref[Any] | None = None, name: str = "") -> None:
        self._expr, self._holder, self._name = expr, holder, name

    if TYPE_CHECKING:
        # What `__getattr__` and `__call__` do, as far as types can say it; the list of names is the language's.
        def map(self: Ref[list[X]], body: Callable[[Ref[X]], Ref[Y]], /) -> Ref[list[Y]]: ...
        def filter(self: Ref[list[X]], test: Callable[[Ref[X]], object], /) -> Ref[list[X]]: ...
        def flat_map(self: Ref[list[X]], body: Callable[[Ref[X]], Ref[list[Y]]], /) -> Ref[list[Y]]: ...
        def reduce(self: Ref[list[X]], body: Callable[[Ref[Y], Ref[X]], object], start: Y, /) -> Ref[Y]: ...
        def group_by(self: Ref[list[X]], key: Callable[[Ref[X]], object], /) -> Ref[dict[str, list[X]]]: ...
        def sort(
            self: Ref[list[X]], by: Callable[[Ref[X]], object] | None = None, order: str = "asc", /
        ) -> Ref[list[X]]: ...
        def all(self: Ref[list[X]], test: Callable[[Ref[X]], object] | None = None, /) -> Ref[bool]: ...
        def any(self: Ref[list[X]], test: Callable[[Ref[X]], object] | None = None, /) -> Ref[bool]: ...
        def length(self) -> Ref[int]: ...
        def contains(self, part: object, /) -> Ref[bool]: ...
        def coalesce(self, *others: object) -> Ref[Any]: ...
        def exists(self) -> Ref[bool]: ...

    def __getattr__(self, name: str) -> Ref[Any]:
        if name.startswith("_"):
            raise AttributeError(f"{self!r} has no {name!r}; to read a field of this name, write [{name!r}]")
        return Ref(select(self._expr, name), self, name)

    def __getitem__(self, key: int | str | Ref[Any]) -> Ref[Any]:
        if isinstance(key, slice) or (isinstance(key, int) and key < 0):
            raise mistake(
                f"{self!r}[{key!r}]: write a position counted from 0, or a key; to select several elements, use "
                ".filter(...)"
            )
        at = expression(key, "the member")
        if isinstance(at, Lit) and type(at.value) in (str, int):
            return Ref(select(self._expr, at.value))
        return Ref(Fn("[]", (self._expr, at)))

    def __call__(self, *args: object, **named: object) -> Ref[Any]:
        if self._holder is None:
            raise mistake(f"{self!r} is a value, and a value cannot be called")
        if named:
            raise mistake(f"{self._name} takes no named arguments, as all functions of the language: {list(named)}")
        return Ref(call(self._name, self._holder._expr, args, Ref))

    # --- operators ------------------------------------------------------------------------------

    def __eq__(self, other: object) -> Ref[bool]:
        return self._with("==", other)

    def __ne__(self, other: object) -> Ref[bool]:
        return self._with("!=", other)

    __hash__ = object.__hash__

    def __lt__(self, other: object) -> Ref[bool]:
        return self._with("<", other)

    def __le__(self, other: object) -> Ref[bool]:
        return self._with("<=", other)

    def __gt__(self, other: object) -> Ref[bool]:
        return self._with(">", other)

    def __ge__(self, other: object) -> Ref[bool]:
        return self._with(">=", other)

    def __and__(self, other: object) -> Ref[bool]:
        return self._with("&&", other)

    def __rand__(self, other: object) -> Ref[bool]:
        return self._after("&&", other)

    def __or__(self, other: object) -> Ref[bool]:
        return self._with("||", other)

    def __ror__(self, other: object) -> Ref[bool]:
        return self._after("||", other)

    def __invert__(self) -> Ref[bool]:
        return Ref(Fn("!", (self._expr,)))

    def __add__(self, other: object) -> Ref[T]:
        return self._with("+", other)

    def __radd__(self, other: object) -> Ref[T]:
        return self._after("+", other)

    def __sub__(self, other: object) -> Ref[T]:
        return self._with("-", other)

    def __rsub__(self, other: object) -> Ref[T]:
        return self._after("-", other)

    def __mul__(self, other: object) -> Ref[T]:
        return self._with("*", other)

    def __rmul__(self, other: object) -> Ref[T]:
        return self._after("*", other)

    def __truediv__(self, other: object) -> Ref[float]:
        return self._with("/", other)

    def __rtruediv__(self, other: object) -> Ref[float]:
        return self._after("/", other)

    def __mod__(self, other: object) -> Ref[T]:
        return self._with("%", other)

    def __rmod__(self, other: object) -> Ref[T]:
        return self._after("%", other)

    def __neg__(self) -> Ref[T]:
        return Ref(Fn("neg", (self._expr,)))

    def __abs__(self) -> Ref[T]:
        return Ref(Fn("abs", (self._expr,)))

    def __round__(self, digits: int = 0) -> Ref[T]:
        return Ref(Fn("round", (self._expr, expression(digits)) if digits else (self._expr,)))

    def _with(self, operator: str, other: object) -> Ref[Any]:
        return Ref(binary(operator, self._expr, expression(other)))

    def _after(self, operator: str, other: object) -> Ref[Any]:
        return Ref(binary(operator, expression(other), self._expr))

    # --- what would need the value now -----------------------------------------------------------

    def __format__(self, spec: str) -> str:
        if spec:
            raise mistake(f"{self!r} has no value yet, so the format {spec!r} cannot be applied; use round() or join()")
        return marked(self._expr)

    def __str__(self) -> str:
        return marked(self._expr)

    def __repr__(self) -> str:
        return readable(self._expr)

    def __bool__(self) -> NoReturn:
        raise mistake(
            f"{self!r} has no value yet, so Python cannot decide on it: use flow.when(...) or .choose(...) instead of "
            "`if`; `&`, `|`, `~` instead of `and`, `or`, `not`, with parentheses round each side, as in "
            "(a == 1) & (b < c), also for a < b < c; .contains(x) instead of `in`"
        )

    def __len__(self) -> NoReturn:
        raise mistake(f"{self!r} has no value yet: use .length() instead of len()")

    def __iter__(self) -> NoReturn:
        raise mistake(
            f"{self!r} has no value yet, so Python cannot iterate over it: use flow.for_each(...) to do something "
            "per element, .map(...) or .filter(...) to compute"
        )

    def __contains__(self, part: object) -> NoReturn:
        raise mistake(f"{self!r} has no value yet: use .contains(x) instead of `in`")

    def _no_number(self) -> NoReturn:
        raise mistake(f"{self!r} has no value yet, so Python cannot use it as a number: use .int() or .float()")

    __int__ = __float__ = __index__ = __complex__ = _no_number
