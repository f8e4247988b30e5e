"""The macros: forms that evaluate a body for every element of a list.

`list.map(e, e.x)` names the element; `list.map($item.x)` uses `$item` and `$index` (and `$acc`).
To add one, add its forms to MACROS and its runner to RUNNERS.
"""

from __future__ import annotations

from typing import Final

from ..frozen import dataclass
from .ast import Each, Expr

_ELEMENT: Final = ("$item", "$index")


@dataclass(frozen=True, slots=True)
class Form:
    """One way to call a macro: how many names, bodies and further arguments, in that order."""

    kind: str
    names: int
    bodies: int = 1
    extra: int = 0
    implicit: tuple[str, ...] = _ELEMENT

    @property
    def count(self) -> int:
        return self.names + self.bodies + self.extra

    def build(
        self, source: Expr, names: tuple[str, ...], bodies: tuple[Expr, ...], extra: tuple[Expr, ...], column: int
    ) -> Expr:
        """The tree of a call in this form."""
        if self.bodies == 2:  # CEL's map(e, condition, value)
            source = Each("filter", source, names, bodies[0], (), column)
        if self.kind == "reduce" and self.names:
            names = (names[1], names[0])
        return Each(self.kind, source, names, bodies[-1], extra, column)


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro's name, its forms, an example for messages, and the JSON type it gives."""

    name: str
    forms: tuple[Form, ...]
    example: str
    returns: str | None


def _macro(name: str, returns: str | None, *, kind: str = "", ordered: bool = False, pairs: bool = False) -> Macro:
    kind = kind or name
    forms = [Form(kind, 0), Form(kind, 1)]
    if pairs:
        forms.append(Form(kind, 1, bodies=2))
    if ordered:
        forms += [Form(kind, 0, extra=1), Form(kind, 1, extra=1)]
    return Macro(name, tuple(forms), f"list.{name}(e, ...)", returns)


MACROS: Final[dict[str, Macro]] = {
    macro.name: macro
    for macro in (
        _macro("all", "boolean"),
        _macro("exists", "boolean"),
        _macro("any", "boolean", kind="exists"),
        _macro("exists_one", "boolean"),
        _macro("map", "array", pairs=True),
        _macro("filter", "array"),
        _macro("flat_map", "array"),
        _macro("group_by", "object"),
        _macro("sort", "array", ordered=True),
        Macro(
            "reduce",
            (
                Form("reduce", 0, extra=1, implicit=("$item", "$acc", "$index")),
                Form("reduce", 2, extra=1),
            ),
            "list.reduce(acc, e, acc + e, 0)",
            None,
        ),
    )
}
"""Every macro by name. `FUNCTIONS` may hold the same name for the call without a body."""

KINDS: Final = frozenset(form.kind for macro in MACROS.values() for form in macro.forms)
"""Every kind of Each."""


def form(name: str, count: int, named: bool | None) -> Form | None:
    """The form of macro `name` with `count` arguments after the list; None where there is none.
    `named` says whether a plain name comes first, None when that is not known yet."""
    fitting = [known for known in MACROS[name].forms if known.count == count]
    for known in fitting:
        if named is None or named == bool(known.names):
            return known
    return fitting[0] if fitting else None
