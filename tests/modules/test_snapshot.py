"""The state that a Python tool gets: right values, however they are read, and nobody else's to change."""

from __future__ import annotations

import collections
import copy
import itertools
import json
import operator
import pickle
import random
from typing import Any

import orjson
import pytest

from ropewalk.tools.snapshots import Snapshot, copy_plain

VALUES: dict[str, Any] = {"rows": [{"a": 1}, {"a": 2}], "one": {"deep": {"x": [1]}}, "n": 5, "s": "text", "none": None}


def state() -> dict[str, Any]:
    return copy.deepcopy(VALUES)


READERS = {
    "star": lambda s: {**s},
    "call": lambda s: (lambda **given: given)(**s),
    "dict": dict,
    "json": lambda s: json.loads(json.dumps(s)),
    "json indented": lambda s: json.loads(json.dumps(s, indent=1, sort_keys=True)),
    "orjson": lambda s: orjson.loads(orjson.dumps(s)),
    "copy": copy.copy,
    "copy method": lambda s: s.copy(),
    "deepcopy": copy.deepcopy,
    "pickle": lambda s: pickle.loads(pickle.dumps(s)),
    "items": lambda s: dict(s.items()),
    "iteration": lambda s: {key: s[key] for key in s},
    "zip": lambda s: dict(zip(s.keys(), s.values(), strict=True)),
    "get": lambda s: {key: s.get(key) for key in s},
    "or": lambda s: s | {},
    "ror": lambda s: {} | s,
    "pop": lambda s: {key: s.pop(key) for key in list(s)},
    "popitem": lambda s: dict([s.popitem() for _ in range(len(s))]),
    "setdefault": lambda s: {key: s.setdefault(key, 0) for key in s},
    "match": lambda s: _matched(s),
    "plain": copy_plain,
    "eval of repr": lambda s: eval(repr(s)),
}


def _matched(value: Any) -> Any:
    match value:
        case {"rows": rows, "one": one, **rest}:
            return {"rows": rows, "one": one, **rest}
    return None


def ruin(value: Any) -> None:
    """Change everything in reach."""
    if isinstance(value, dict):
        for inner in list(value.values()):
            ruin(inner)
        value["ruined"] = True
    elif isinstance(value, list):
        for inner in list(value):
            ruin(inner)
        value.append("ruined")


@pytest.mark.parametrize("way", READERS, ids=str)
def test_every_way_of_reading_sees_the_right_values_and_changes_nothing_of_ours(way: str) -> None:
    shared = state()
    read = READERS[way](Snapshot(shared))
    assert read == VALUES
    ruin(read)
    assert shared == VALUES


def test_what_was_changed_is_seen_by_every_way_of_reading() -> None:
    for way, read in READERS.items():
        shared = state()
        mine = Snapshot(shared)
        mine["rows"].append("mine")
        mine["n"] = 6
        mine["new"] = [1]
        mine |= {"s": "other"}
        mine.update(none=0)
        del mine["one"]
        mine["one"] = {}
        expected = {"rows": [{"a": 1}, {"a": 2}, "mine"], "n": 6, "s": "other", "none": 0, "new": [1], "one": {}}
        assert read(mine) == expected, way
        assert shared == VALUES, way


def test_it_is_a_dict_like_any_other() -> None:
    shared = state()
    mine = Snapshot(shared)
    assert isinstance(mine, dict)
    assert mine == VALUES
    assert len(mine) == 5
    assert "rows" in mine
    assert mine.get("nothing") is None
    assert mine.get("nothing", 7) == 7
    assert mine.pop("nothing", 8) == 8
    with pytest.raises(KeyError):
        mine["nothing"]
    with pytest.raises(KeyError):
        mine.pop("nothing")
    with pytest.raises(KeyError):
        del mine["nothing"]
    mine.clear()
    assert mine == {}
    assert shared == VALUES


def test_what_is_reached_twice_is_the_same_object() -> None:
    mine = Snapshot(state())
    assert mine["rows"] is mine["rows"]
    assert mine.get("rows") is mine["rows"]
    assert dict(mine.items())["rows"] is mine["rows"]


LISTS = {
    "index": lambda rows: [rows[i] for i in range(len(rows))],
    "negative": lambda rows: [rows[i] for i in range(-len(rows), 0)],
    "slice": lambda rows: rows[:],
    "iteration": lambda rows: [row for row in rows],  # noqa: C416 - the iteration is what is tried
    "list": list,
    "tuple": lambda rows: [*(tuple(rows),)[0]],
    "star": lambda rows: [*rows],
    "arguments": lambda rows: list((lambda *given: given)(*rows)),
    "unpacking": lambda rows: (lambda a, b, c, d: [a, b, c, d])(*rows),
    "reversed": lambda rows: [*reversed(rows)][::-1],
    "copy": copy.copy,
    "copy method": lambda rows: rows.copy(),
    "deepcopy": copy.deepcopy,
    "pickle": lambda rows: pickle.loads(pickle.dumps(rows)),
    "json": lambda rows: json.loads(json.dumps(rows)),
    "orjson": lambda rows: orjson.loads(orjson.dumps(rows)),
    "add": lambda rows: operator.add(rows, []),
    "added": lambda rows: operator.add([], rows),
    "times": lambda rows: rows * 1,
    "pop": lambda rows: [rows.pop(0) for _ in range(len(rows))],
    "pop last": lambda rows: [rows.pop() for _ in range(len(rows))][::-1],
    "sorted": lambda rows: sorted(rows, key=lambda row: 0),
    "sort": lambda rows: rows.sort(key=lambda row: 0) or rows,
    "twice reversed": lambda rows: rows.reverse() or rows.reverse() or rows,
    "chain": lambda rows: list(itertools.chain(rows)),
    "filter": lambda rows: [row for row in rows if row is not rows],
    "deque": lambda rows: list(collections.deque(rows)),
    "itemgetter": lambda rows: list(operator.itemgetter(0, 1, 2, 3)(rows)),
    "plain": copy_plain,
    "extended": lambda rows: [].__iadd__(rows),
    "repr": lambda rows: eval(repr(rows)),
}
ROWS: list[Any] = [{"a": [1, {"b": 2}]}, [3, [4]], 5, {"c": {}}]


@pytest.mark.parametrize("way", LISTS, ids=str)
def test_lists_in_it_are_as_right_and_as_much_ones_own(way: str) -> None:
    shared = {"rows": copy.deepcopy(ROWS)}
    for _ in range(2):
        read = LISTS[way](Snapshot(shared)["rows"])
        assert read == ROWS
        ruin(read)
        assert shared == {"rows": ROWS}


def test_a_list_that_is_changed_stays_a_list_like_any_other() -> None:
    shared = {"rows": copy.deepcopy(ROWS)}
    rows, like, mine = Snapshot(shared)["rows"], copy.deepcopy(ROWS), {"mine": [0]}
    changes: list[Any] = [
        lambda x: x.append(mine), lambda x: x.insert(0, mine), lambda x: x.reverse(), lambda x: x.extend([[1], mine]),
        lambda x: x.__setitem__(1, mine), lambda x: x.__setitem__(slice(0, 1), [[7], [8]]), lambda x: x.remove(5),
        lambda x: x.__delitem__(0), lambda x: x.sort(key=str), lambda x: x.__iadd__([{}]), lambda x: x.__imul__(2),
        lambda x: random.Random(1).shuffle(x), lambda x: x.pop(2), lambda x: x[0:2].clear(), lambda x: x.index(mine),
    ]  # fmt: skip
    for change in changes:
        assert change(rows) == change(like)
        assert rows == like
        assert [*rows] == like
        assert json.loads(json.dumps(rows)) == like
    found = next(row for row in rows if row == {"mine": [0]})
    found["mine"].append(1)
    assert mine == {"mine": [0, 1]}, "what was put in is not copied"
    ruin(rows)
    assert shared == {"rows": ROWS}
    with pytest.raises(IndexError):
        Snapshot({"rows": []})["rows"].pop()


def test_a_row_of_a_large_table_costs_no_more_than_the_row() -> None:
    shared = {"rows": [{"a": [i]} for i in range(100)]}
    rows = Snapshot(shared)["rows"]
    assert rows[5]["a"] == [5]
    raw = list(list.__iter__(rows))
    assert [i for i, row in enumerate(raw) if row is not shared["rows"][i]] == [5]


def test_a_large_state_is_not_copied_before_it_is_reached() -> None:
    """MODULE-6"""
    shared = {"rows": [{"a": i} for i in range(100)], "n": 1}
    mine = Snapshot(shared)
    assert mine["n"] == 1
    assert dict.__getitem__(mine, "rows") is shared["rows"]
    assert mine["rows"] is not shared["rows"]
