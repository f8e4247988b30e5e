"""State: the reducers, and folding in a fixed order."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.builder.flow import Reducer as BuilderReducer
from ropewalk.errors import InvalidValue
from ropewalk.ir import Channel
from ropewalk.notations.json_schema import schema_of
from ropewalk.state import REDUCERS, check_writes, fold, start


def folded(reduce: str, *updates: Any, base: Any = None, **channel: Any) -> Any:
    channels = {"c": Channel(reduce=reduce, **channel)}
    return fold(channels, {} if base is None else {"c": base}, [("c", u) for u in updates]).get("c")


@pytest.mark.parametrize(
    ("reduce", "base", "updates", "after"),
    [
        ("last_wins", 1, [2, 3], 3),
        ("last_wins", 1, [None], None),
        ("array_append", [1], [[2], [], [3, 4]], [1, 2, 3, 4]),
        ("array_append", None, [[1]], [1]),
        ("array_append", [1], [None], [1]),
        ("set_once", None, ["a"], "a"),
        ("object_merge", {"a": 1, "b": 1}, [{"b": 2}, {"c": 3}], {"a": 1, "b": 2, "c": 3}),
        ("sum", None, [1, 2, 0.5], 3.5),
        ("sum", 4, [None], 4),
        ("max", 3, [1, 7, 2], 7),
        ("min", None, [4, 2.5], 2.5),
        ("union", [1, "a"], [["a", True, 1.0], [{"x": [1]}, {"x": [1]}]], [1, "a", True, {"x": [1]}]),
    ],
)
def test_each_reducer_folds_updates_in_order(reduce: str, base: Any, updates: list[Any], after: Any) -> None:
    got = folded(reduce, *updates, base=base)
    assert got == after
    assert [type(x) for x in got] == [type(x) for x in after] if isinstance(after, list) else type(got) is type(after)


@pytest.mark.parametrize(
    ("reduce", "update", "words"),
    [
        ("array_append", "x", "state.c: got string; array_append takes an array"),
        ("union", {}, "state.c: got object; union takes an array"),
        ("object_merge", [1], "state.c: got array; object_merge takes an object"),
        ("sum", True, "state.c: got boolean; sum takes a number"),
        ("max", "9", "state.c: got string; max takes a number"),
        ("sum", [1], "state.c: got array; sum takes a number"),
    ],
)
def test_a_wrong_type_names_channel_and_type(reduce: str, update: Any, words: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        folded(reduce, update)
    assert str(caught.value) == words


def test_a_second_set_once_is_refused_and_null_does_not_count() -> None:
    assert folded("set_once", None, "a", None) == "a"
    assert folded("set_once", "a", base="start", initial="start") == "a"
    with pytest.raises(InvalidValue, match="already set"):
        folded("set_once", "a", "b")
    with pytest.raises(InvalidValue, match="already set"):
        folded("set_once", "b", base="a")


def test_sums_stay_json() -> None:
    with pytest.raises(InvalidValue, match="64 bits"):
        folded("sum", 2**62, 2**62)
    with pytest.raises(InvalidValue, match="float"):
        folded("sum", 1e308, 1e308)


def test_an_undeclared_channel_is_refused_with_a_suggestion() -> None:
    with pytest.raises(InvalidValue, match=r"state\.nmae: undeclared state field \"nmae\"; did you mean name\?"):
        fold({"name": Channel()}, {}, [("nmae", 1)])
    with pytest.raises(InvalidValue, match="did you mean name"):
        start({"name": Channel()}, {"nam": 1})


def test_start_gives_declared_values_and_leaves_out_what_has_none() -> None:
    channels = {"a": Channel(initial=1), "b": Channel(present=False), "c": Channel()}
    assert start(channels) == {"a": 1, "c": None}
    assert start(channels, {"b": 2}) == {"a": 1, "b": 2, "c": None}


def test_writes_are_checked_against_declared_types() -> None:
    channels = {
        "n": Channel(schema={"type": ["string", "integer"]}),
        "l": Channel(reduce="array_append"),
        "x": Channel(),
    }
    check_writes(channels, [("n", "a"), ("n", 1), ("n", 2.0), ("n", None), ("l", []), ("x", {"any": 1})])
    with pytest.raises(InvalidValue, match=r"got array; declared as type string or integer in state\.schema"):
        check_writes(channels, [("n", [])])
    with pytest.raises(InvalidValue, match="array_append takes an array"):
        check_writes(channels, [("l", 1)])
    with pytest.raises(InvalidValue, match="undeclared"):
        check_writes(channels, [("y", 1)])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)
updates_for = {
    None: json_values,
    "array": st.none() | st.lists(json_values, max_size=3),
    "object": st.none() | st.dictionaries(st.text(max_size=2), json_values, max_size=3),
    "number": st.none() | st.integers(-99, 99),
}


@given(st.data(), st.sampled_from([r for r in REDUCERS if r != "set_once"]))
def test_folding_at_once_or_piece_by_piece_gives_the_same_and_changes_nothing(data: st.DataObject, reduce: str) -> None:
    updates = data.draw(st.lists(updates_for[REDUCERS[reduce].takes], max_size=6))
    channels = {"c": Channel(reduce=reduce)}
    before = copy.deepcopy(updates)
    whole = fold(channels, {}, [("c", u) for u in updates])
    piece: dict[str, Any] = {}
    for update in updates:
        base = copy.deepcopy(piece)
        after = fold(channels, piece, [("c", update)])
        assert piece == base
        piece = after
    assert whole == piece
    assert updates == before


def test_appending_many_times_in_one_fold_is_linear() -> None:
    writes = [("c", [i]) for i in range(200_000)]
    began = time.process_time()
    done = fold({"c": Channel(reduce="array_append")}, {"c": []}, writes)
    assert len(done["c"]) == 200_000
    assert time.process_time() - began < 4  # 0.1 s; copying at every write would take half a minute


def test_the_builder_and_editors_know_every_reducer() -> None:
    """What a type checker and an editor offer cannot be read from REDUCERS while they look at a file."""
    assert sorted(get_args(BuilderReducer)) == sorted(REDUCERS)
    offered: dict[str, list[str]] = {}
    for field in _objects(schema_of("experience")):
        if {"type", "merge"} <= field.get("properties", {}).keys():
            offered[field["properties"]["type"]["const"]] = field["properties"]["merge"]["enum"]
    assert sorted(offered) == ["any", "array", "boolean", "null", "number", "object", "string"]
    for kind, names in offered.items():
        fitting = [name for name, known in REDUCERS.items() if known.takes in (None, kind)]
        assert sorted(filter(None, names)) == sorted(fitting), kind


def _objects(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        yield part
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _objects(inner)
