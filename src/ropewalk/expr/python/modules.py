"""The modules that a program may import, with the functions and constants that it may use.

To add a function, name it in the table of its module. Functions that call back take the evaluation first.
"""

from __future__ import annotations

import calendar
import collections
import datetime
import functools
import heapq
import itertools
import json
import math
import operator
import statistics
import string
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, Final

from ...values import MAX_DEPTH
from .builtins import bounded, check_count
from .evaluation import BuiltinFunction, Evaluation
from .method_table import CHANGES_OF_HEAPS
from .operations import BINARY, member, subscript
from .regex import FLAGS, RE
from .values import Refused


class Constant:
    """A constant or type of a module, as opposed to a function."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _plain(native: Callable[..., Any]) -> Callable[..., Any]:
    return lambda evaluation, *args, **kwargs: native(*args, **kwargs)


def _over(native: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose first argument is an iterable."""
    return lambda evaluation, values, *args, **kwargs: native(evaluation.collect(values), *args, **kwargs)


# --- math ----------------------------------------------------------------------------------------

_MATH_NAMES: Final = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh degrees erf erfc exp exp2 expm1 fabs floor "
    "fmod frexp gamma gcd hypot isclose isfinite isinf isnan isqrt "
    "lcm ldexp lgamma log log10 log1p log2 modf nextafter pow "
    "radians remainder sin sinh sqrt tan tanh trunc ulp"
)


def _factorial(evaluation: Evaluation, count: Any, /) -> int:
    check_count("factorial", count, 1000)
    return math.factorial(count)


def _choose(native: Callable[..., int]) -> Callable[..., Any]:
    def run(evaluation: Evaluation, count: Any, *chosen: Any) -> Any:
        check_count(native.__name__, count, 1000)
        return native(count, *chosen)

    return run


def _prod(evaluation: Evaluation, values: Any, /, *, start: Any = 1) -> Any:
    total = start
    for value in evaluation.iterate(values):
        total = BINARY["Mult"](evaluation, total, value)
    return total


_MATH: Final[dict[str, Any]] = {
    **{name: _plain(getattr(math, name)) for name in _MATH_NAMES.split()},
    **{name: Constant(getattr(math, name)) for name in ("pi", "e", "tau", "inf", "nan")},
    "factorial": _factorial,
    "comb": _choose(math.comb),
    "perm": _choose(math.perm),
    "prod": _prod,
    "fsum": _over(math.fsum),
    "dist": _plain(math.dist),
}


# --- json ----------------------------------------------------------------------------------------


def _dumps(evaluation: Evaluation, value: Any, /, **options: Any) -> str:
    if refused := options.keys() - {"indent", "sort_keys", "ensure_ascii", "separators", "default", "allow_nan"}:
        raise TypeError(f"dumps() got an unexpected keyword argument '{sorted(refused)[0]}'")
    if isinstance(options.get("indent"), int) and options["indent"] > 100:
        raise Refused("an indent of more than 100 spaces; write a smaller indent")
    if options.get("default") is not None:
        options["default"] = evaluation.callable(options["default"])
    evaluation.walk(value)
    text = json.dumps(value, **options)
    evaluation.reserve(len(text))
    return text


def _loads(evaluation: Evaluation, text: Any, /) -> Any:
    if not isinstance(text, str):
        raise TypeError(f"the JSON object must be str, bytes or bytearray, not {type(text).__name__}")
    evaluation.reserve(4 * len(text))
    # The depth is checked before parsing: the parser itself recurses.
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise Refused(f"JSON nested more than {MAX_DEPTH} deep")
    return json.loads(text)


def _depth(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


_JSON: Final[dict[str, Any]] = {
    "dumps": _dumps,
    "loads": _loads,
    "JSONDecodeError": Constant(json.JSONDecodeError),
}


# --- itertools, functools, operator ----------------------------------------------------------------


def _lazily(native: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that gives an iterator; each of its iterables and its result spend steps."""

    def run(evaluation: Evaluation, *values: Any, **options: Any) -> Iterator[Any]:
        return bounded(evaluation, native(*[evaluation.iterate(value) for value in values], **options))

    return run


def _sized(native: Callable[..., Any]) -> Callable[..., Any]:
    def run(evaluation: Evaluation, values: Any, *size: Any, **options: Any) -> Iterator[Any]:
        return bounded(evaluation, native(evaluation.iterate(values), *size, **options))

    return run


def _calling(native: Callable[..., Any]) -> Callable[..., Any]:
    def run(evaluation: Evaluation, function: Any, *values: Any) -> Iterator[Any]:
        made: Iterator[Any] = native(evaluation.callable(function), *[evaluation.iterate(value) for value in values])
        return made

    return run


def _accumulate(evaluation: Evaluation, values: Any, func: Any = None, *, initial: Any = None) -> Iterator[Any]:
    run = None if func is None else evaluation.callable(func)
    if run is None:
        run = lambda left, right: BINARY["Add"](evaluation, left, right)  # noqa: E731
    return itertools.accumulate(evaluation.iterate(values), run, initial=initial)


def _groupby(evaluation: Evaluation, values: Any, key: Any = None) -> Iterator[Any]:
    return itertools.groupby(evaluation.iterate(values), None if key is None else evaluation.callable(key))


def _product(evaluation: Evaluation, *values: Any, repeat: int = 1) -> Iterator[Any]:
    pools = [evaluation.collect(value) for value in values]
    if len(pools) * repeat > 64:
        raise Refused("a product of more than 64 lists")
    return bounded(evaluation, itertools.product(*pools, repeat=repeat))


def _reduce(evaluation: Evaluation, function: Any, values: Any, *initial: Any) -> Any:
    return functools.reduce(evaluation.callable(function), evaluation.iterate(values), *initial)


def _comparing(evaluation: Evaluation, compare: Any) -> Any:
    key = functools.cmp_to_key(evaluation.callable(compare))
    return BuiltinFunction("cmp_to_key", lambda evaluation, value: key(value), evaluation)


_ITERTOOLS: Final[dict[str, Any]] = {
    "accumulate": _accumulate,
    "chain": _lazily(itertools.chain),
    "combinations": _sized(itertools.combinations),
    "combinations_with_replacement": _sized(itertools.combinations_with_replacement),
    "compress": _lazily(itertools.compress),
    "count": lambda evaluation, *values: bounded(evaluation, itertools.count(*values)),
    "cycle": _lazily(itertools.cycle),
    "dropwhile": _calling(itertools.dropwhile),
    "filterfalse": _calling(itertools.filterfalse),
    "groupby": _groupby,
    "islice": _sized(itertools.islice),
    "pairwise": _lazily(itertools.pairwise),
    "permutations": _sized(itertools.permutations),
    "product": _product,
    "repeat": lambda evaluation, *values: bounded(evaluation, itertools.repeat(*values)),
    "starmap": _calling(itertools.starmap),
    "takewhile": _calling(itertools.takewhile),
    "zip_longest": _lazily(itertools.zip_longest),
}


def _itemgetter(evaluation: Evaluation, *keys: Any) -> BuiltinFunction:
    def get(evaluation: Evaluation, value: Any) -> Any:
        items = tuple(subscript(evaluation, value, key) for key in keys)
        return items[0] if len(items) == 1 else items

    return BuiltinFunction("itemgetter", get, evaluation)


def _attrgetter(evaluation: Evaluation, *names: str) -> BuiltinFunction:
    def get(evaluation: Evaluation, value: Any) -> Any:
        items = tuple(
            functools.reduce(lambda holder, name: member(evaluation, holder, name), path.split("."), value)
            for path in names
        )
        return items[0] if len(items) == 1 else items

    return BuiltinFunction("attrgetter", get, evaluation)


_OPERATOR_NAMES: Final = "eq ne lt le gt ge not_ truth and_ or_ xor neg pos abs floordiv truediv"
_OPERATOR: Final[dict[str, Any]] = {
    **{name: _plain(getattr(operator, name)) for name in _OPERATOR_NAMES.split()},
    "add": BINARY["Add"],
    "sub": BINARY["Sub"],
    "mul": BINARY["Mult"],
    "mod": BINARY["Mod"],
    "pow": BINARY["Pow"],
    "itemgetter": _itemgetter,
    "attrgetter": _attrgetter,
    "contains": lambda evaluation, values, value: value in values,
    "getitem": subscript,
}


def _statistics_functions() -> dict[str, Any]:
    names = (
        "mean fmean geometric_mean harmonic_mean median median_low median_high mode multimode pstdev pvariance stdev"
    )
    return {name: _over(getattr(statistics, name)) for name in f"{names} variance".split()} | {"quantiles": _quantiles}


def _quantiles(evaluation: Evaluation, values: Any, *, n: int = 4, method: str = "exclusive") -> Any:
    check_count("quantiles", n)
    return statistics.quantiles(evaluation.collect(values), n=n, method=method)  # type: ignore[arg-type]


def _ranked(*, reverse: bool) -> Callable[..., Any]:
    def run(evaluation: Evaluation, count: int, values: Any, key: Any = None) -> list[Any]:
        rank = None if key is None else evaluation.callable(key)
        return sorted(evaluation.collect(values), key=rank, reverse=reverse)[: max(count, 0)]

    return run


MODULES: Final[dict[str, dict[str, Any]]] = {
    "re": {**RE, **{name: Constant(value) for name, value in FLAGS.items()}},
    "math": _MATH,
    "json": _JSON,
    "itertools": _ITERTOOLS,
    "functools": {"reduce": _reduce, "cmp_to_key": _comparing},
    "operator": _OPERATOR,
    "statistics": {**_statistics_functions(), "StatisticsError": Constant(statistics.StatisticsError)},
    "collections": {
        name: Constant(getattr(collections, name)) for name in ("Counter", "OrderedDict", "defaultdict", "deque")
    },
    "datetime": {
        **{name: Constant(getattr(datetime, name)) for name in ("date", "datetime", "time", "timedelta", "timezone")},
        "UTC": Constant(datetime.UTC),
    },
    "string": {
        name: Constant(getattr(string, name))
        for name in [
            "ascii_letters",
            "ascii_lowercase",
            "ascii_uppercase",
            "digits",
            "hexdigits",
            "octdigits",
            "punctuation",
            "whitespace",
        ]
    },
    "textwrap": {name: _plain(getattr(textwrap, name)) for name in ("dedent", "fill", "indent", "shorten", "wrap")},
    "calendar": {
        **{name: _plain(getattr(calendar, name)) for name in ("isleap", "monthrange", "weekday")},
        **{name: Constant([*getattr(calendar, name)]) for name in ("day_abbr", "day_name", "month_abbr", "month_name")},
    },
    "heapq": {
        "nlargest": _ranked(reverse=True),
        "nsmallest": _ranked(reverse=False),
        **{name: _plain(getattr(heapq, name)) for name in CHANGES_OF_HEAPS},
    },
    "typing": {},
    "__future__": {"annotations": Constant(None)},
    "asyncio": {"TimeoutError": Constant(TimeoutError)},
}
"""What a program may import. `typing` and `asyncio` are known to the compiler of plans."""
