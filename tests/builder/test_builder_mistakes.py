"""Mistakes in a flow are told at once, at the line of the user's file, with the way to what is meant."""

from __future__ import annotations

import datetime
import gc
import inspect
import linecache
from collections.abc import Callable
from typing import Any

import pytest

from builder.tools_for_flows import bad, count, fetch, search
from ropewalk import flow
from ropewalk.builder.flow import FlowBuilder
from ropewalk.errors import InvalidFlow
from ropewalk.source.document import render_problem

Mistake = Callable[[FlowBuilder, Any], object]


def told(mistake: Mistake) -> str:
    """The message of the one problem that `mistake` makes, after its place has been looked at."""
    with pytest.raises(InvalidFlow) as raised, flow("wrong", x=str) as f:
        mistake(f, f.call(search, query=f.input.x))
    [problem] = raised.value.problems
    lines, first = inspect.getsourcelines(mistake)
    assert problem.place is not None
    assert problem.place.file.endswith("test_builder_mistakes.py")
    assert first <= problem.place.line < first + len(lines)
    assert problem.place.text == linecache.getline(__file__, problem.place.line).rstrip("\n")
    assert problem.path.startswith(f"test_builder_mistakes.py:{problem.place.line}")
    assert problem.place.text.strip() in render_problem(problem)
    return str(problem)


def if_(f: FlowBuilder, hits: Any) -> None:
    if hits:
        pass


def and_(f: FlowBuilder, hits: Any) -> object:
    return hits[0].a and hits[0].b


def or_(f: FlowBuilder, hits: Any) -> object:
    return hits[0].a or 1


def not_(f: FlowBuilder, hits: Any) -> object:
    return not hits


def chained(f: FlowBuilder, hits: Any) -> object:
    return 0 < hits[0].score < 5


def unbraced(f: FlowBuilder, hits: Any) -> object:
    return hits[0].n == 1 & hits[0].n == 2


def iterated(f: FlowBuilder, hits: Any) -> None:
    for _ in hits:
        pass


def unpacked(f: FlowBuilder, hits: Any) -> object:
    return [*hits]


def measured(f: FlowBuilder, hits: Any) -> object:
    return len(hits)


def contained(f: FlowBuilder, hits: Any) -> object:
    return "a" in hits


def converted(f: FlowBuilder, hits: Any) -> object:
    return int(hits[0].score)


def laid_out(f: FlowBuilder, hits: Any) -> object:
    return f"{hits[0].score:.2f}"


def indexed(f: FlowBuilder, hits: Any) -> object:
    return "abc"[hits.length()]


def cut(f: FlowBuilder, hits: Any) -> object:
    return hits[:2]


def from_the_end(f: FlowBuilder, hits: Any) -> object:
    return hits[-1]


ASKED_FOR_A_VALUE = [
    (if_, "flow.when(...)"), (and_, "`&`"), (or_, "`|`"), (not_, "`~`"),
    (chained, "(a == 1) & (b < c), also for a < b < c"),
    (unbraced, "parentheses round each side"),
    (iterated, "flow.for_each(...)"), (unpacked, ".map(...)"), (measured, ".length()"), (contained, ".contains(x)"),
    (converted, ".int()"), (laid_out, "'.2f'"), (indexed, "number"), (cut, ".filter(...)"), (from_the_end, "from 0"),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "part"), ASKED_FOR_A_VALUE, ids=lambda v: getattr(v, "__name__", ""))
def test_what_asks_for_a_value_names_what_to_write(mistake: Mistake, part: str) -> None:
    assert part in told(mistake)


OTHERS: list[tuple[str, Mistake, str]] = [
    ("unknown argument", lambda f, hits: f.call(fetch, ulr="a"), "no argument 'ulr'; it takes url; did you mean url?"),
    ("missing argument", lambda f, hits: f.call(fetch), "fetch needs url"),
    ("position without function", lambda f, hits: f.call("s:tool", "a"), "name=value"),  # type: ignore[call-overload]
    ("too many by position", lambda f, hits: f.call(fetch, "a", "b"), "at most 1 arguments"),
    ("twice", lambda f, hits: f.call(fetch, "a", url="a"), "by position and by name"),
    ("called tool", lambda f, hits: _closed(f), "pass the function"),
    ("no tool", lambda f, hits: f.call(hits), "references stand for values"),
    ("date", lambda f, hits: f.call(fetch, url=datetime.date(2026, 1, 1)), "date is not JSON"),
    ("not a number", lambda f, hits: f.value({"a": [float("nan")]}), "a[0]"),
    ("function as value", lambda f, hits: f.value([fetch]), "fetch is a function, not a value"),
    ("key that is no text", lambda f, hits: f.value({1: 2}), "the key 1"),
    ("reference as key", lambda f, hits: f.value({f"{hits}": 2}), "a plain string"),
    ("unknown function", lambda f, hits: hits.fliter(lambda h: h), "no function 'fliter'; did you mean filter?"),
    ("wrong number", lambda f, hits: hits.length(1), "length takes 1 argument"),
    ("macro without lambda", lambda f, hits: hits.map(1), "takes a function of an element"),
    ("lambda of too many", lambda f, hits: hits.map(lambda a, b, c: a), "not 3 arguments"),
    ("bad order", lambda f, hits: hits.sort(lambda h: h.score, "down"), '"asc" or "desc"'),
    ("bad pattern", lambda f, hits: hits[0].url.matches("("), "bad pattern"),
    ("named arguments", lambda f, hits: hits.split(by=","), "no named arguments"),
    ("call of a value", lambda f, hits: hits(), "a value cannot be called"),
    ("node in a lambda", lambda f, hits: hits.map(lambda h: f.call(fetch, url=h.url)), "flow.for_each(...)"),
    ("tool as body", lambda f, hits: f.for_each(hits, fetch), "lambda ...: flow.call(fetch, ...)"),
    ("body that is no function", lambda f, hits: f.for_each(hits, 5), "must be a function, not 5"),  # type: ignore[call-overload]
    ("body of too many", lambda f, hits: f.for_each(hits, lambda a, b, c: a), "not 3 arguments"),
    ("arm of one", lambda f, hits: f.when(True, lambda a: a), "nothing, not 1"),
    ("concurrency", lambda f, hits: f.for_each(hits, lambda h: h, concurrency=0), "1 or more"),
    ("endless loop", lambda f, hits: f.loop(lambda: 1, limit=0), "a loop must end"),
    ("name taken", lambda f, hits: f.options(name="search").value(1), "a node 'search' already"),
    ("after in a line", lambda f, hits: f.options(after=[hits]).value(1), "one after another"),
    ("unknown reducer", lambda f, hits: f.state("s", reduce="summ"), "did you mean sum?"),  # type: ignore[call-overload]
    ("state twice", lambda f, hits: (f.state("s"), f.state("s")), "a state 's' already"),
    ("late initial", lambda f, hits: f.state("s", initial=hits), "known before the run"),
    ("write of no state", lambda f, hits: f.set(hits, 1), "made by flow.state"),
    ("result twice", lambda f, hits: (f.result(1), f.result(2)), "a result already"),
    ("result inside", lambda f, hits: f.when(True, lambda: f.result(1)), "at the end of the flow"),
    ("empty block", lambda f, hits: _empty(f), "no nodes in it"),
    ("no transform", lambda f, hits: f.apply(len, hits), "@transform"),
    ("status of a part", lambda f, hits: f.status(hits[0]), "not the value of a node"),
    ("fallback of two", lambda f, hits: f.options(fallback=lambda a, b: a).call(bad), "function of the error"),
    ("options of nothing", lambda f, hits: f.options(attempts=3), "belong to no node"),
    ("unknown option", lambda f, hits: f.options(atempts=3), "no 'atempts'"),  # type: ignore[call-arg]
    ("option by place", lambda f, hits: f.options("x"), "by name"),  # type: ignore[call-arg]
    ("unknown setting", lambda f, hits: f.settings(timeut=3), "did you mean timeout?"),  # type: ignore[call-arg]
    ("text for a number", lambda f, hits: f.options(attempts="3"), "attempts is a whole number, not '3'"),  # type: ignore[arg-type]
    ("text for seconds", lambda f, hits: f.settings(timeout="3"), "timeout is a number, not '3'"),  # type: ignore[arg-type]
    ("value in itself", lambda f, hits: f.value(_endless()), "contains itself"),
    ("negative time", lambda f, hits: f.options(timeout=-1).value(1), ": timeout: must not be negative"),
    ("no attempts", lambda f, hits: f.options(attempts=0).value(1), ": attempts: must be at least 1"),
    ("place and way", lambda f, hits: f.value({"a": [hits.x]}), ": a[0]: "),
    ("changed text", lambda f, hits: f.value(f"about {hits}".upper()), "cannot be changed"),
    ("cut text", lambda f, hits: f.value(f"about {hits}"[:9]), "cannot be cut"),
    ("bad type", lambda f, hits: f.state("s", dict[int, str]), "dict"),
]  # fmt: skip


def _closed(f: FlowBuilder) -> object:
    coroutine = fetch(url="a")
    try:
        return f.call(coroutine)  # type: ignore[call-overload]
    finally:
        coroutine.close()


def _endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def _empty(f: FlowBuilder) -> None:
    with f.parallel():
        pass


@pytest.mark.parametrize(("mistake", "part"), [o[1:] for o in OTHERS], ids=[o[0] for o in OTHERS])
def test_other_mistakes(mistake: Mistake, part: str) -> None:
    with pytest.raises(InvalidFlow) as raised, flow("wrong", x=str) as f:
        mistake(f, f.call(search, query=f.input.x))
    [problem] = raised.value.problems
    assert part in str(problem)
    assert problem.place is not None
    assert problem.place.file.endswith("test_builder_mistakes.py")


def inside_used_outside(f: FlowBuilder, hits: Any) -> None:
    kept: list[Any] = []
    f.for_each(hits, lambda hit: kept.append(f.call(fetch, url=hit.url)))
    f.call(count, of=kept)


def element_used_outside(f: FlowBuilder, hits: Any) -> None:
    kept: list[Any] = []
    f.for_each(hits, lambda hit: kept.append(hit))
    f.call(count, of=kept)


def lambda_used_outside(f: FlowBuilder, hits: Any) -> None:
    kept: list[Any] = []
    hits.map(lambda hit: kept.append(hit))
    f.call(count, of=kept)


def error_used_outside(f: FlowBuilder, hits: Any) -> None:
    kept: list[Any] = []
    f.options(fallback=lambda error: kept.append(error)).call(bad)
    f.call(count, of=kept)


def block_inside_itself(f: FlowBuilder, hits: Any) -> None:
    with f.parallel() as block:
        f.call(count, of=[block.count])


def other_flow(f: FlowBuilder, hits: Any) -> None:
    with flow("another") as g:
        g.call(count, of=hits)


OUT_OF_REACH = [
    (inside_used_outside, "'fetch' is inside 'for_each'"), (element_used_outside, "'hit' is an element inside"),
    (lambda_used_outside, "inside a lambda"), (error_used_outside, "only to its fallback"),
    (block_inside_itself, "has no value here"), (other_flow, "belongs to another flow"),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "part"), OUT_OF_REACH, ids=lambda v: getattr(v, "__name__", ""))
def test_what_is_out_of_reach_says_why(mistake: Mistake, part: str) -> None:
    assert part in told(mistake)


def test_what_the_check_finds_is_told_together_each_at_its_line() -> None:
    f = flow("wrong", n=int)
    f.call(fetch, url=f.input.n)
    f.call(search, query="a", limit=f.input.m)
    with pytest.raises(InvalidFlow) as raised:
        f.done()
    first, second = raised.value.problems
    assert "fetch" in first.place.text  # type: ignore[union-attr]
    assert "search" in second.place.text  # type: ignore[union-attr]
    assert "string" in str(first)
    assert "'m'" in str(second)


def test_a_schema_that_cannot_be_compiled_is_refused_with_its_place() -> None:
    f = flow("wrong", {"type": "objct"})
    f.settings(returns={"required": 1})
    f.state("kept", {"items": 5})
    f.check(f.input, {"properties": {"a": {"type": "strng"}}})
    with pytest.raises(InvalidFlow) as raised:
        f.done()
    told = [problem.path.partition(":")[2] or problem.path for problem in raised.value.problems]
    line = inspect.currentframe().f_lineno - 4  # type: ignore[union-attr]
    assert told == [
        f"{line}: schema.properties.a.type", "input_schema.type", "output_schema.required", "state.kept.schema.items",
    ]  # fmt: skip


def test_a_finished_flow_takes_no_more() -> None:
    with flow("done") as f:
        f.value(1)
    with pytest.raises(InvalidFlow, match="finished"):
        f.value(2)
    with pytest.raises(InvalidFlow, match="no nodes"):
        flow("empty").done()
    with pytest.raises(InvalidFlow, match="has a name"):
        flow("")


def test_an_error_in_the_body_is_the_users_own() -> None:
    with pytest.raises(ZeroDivisionError), flow("broken") as f:
        f.value(1 / 0)


def test_what_runs_is_a_definition() -> None:
    from builder.tools_for_flows import run

    with pytest.raises(InvalidFlow, match="not int"):
        run(5)


async def fetched(x: int) -> int:
    """Fetch a number."""
    return x


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda f: f.call(fetched(1)), "the tool has already been called"),
        (lambda f: f.call(fetched, x=fetched(1)), "a coroutine has already been called"),
    ],
)
def test_a_call_in_place_of_a_function_is_reported_once(
    build: Callable[[Any], object], message: str, recwarn: pytest.WarningsRecorder
) -> None:
    with pytest.raises(InvalidFlow, match=message), flow("f") as f:
        build(f)
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []  # Python would say: never awaited
