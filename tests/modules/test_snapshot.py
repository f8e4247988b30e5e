"""The state that a Python tool gets: right values, however they are read, and nobody else's to change."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import orjson
import pytest

from ropewalk.tools.snapshot import Snapshot, plain

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
    "plain": plain,
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


def test_a_large_state_is_not_copied_before_it_is_reached() -> None:
    """MODULE-6"""
    shared = {"rows": [{"a": i} for i in range(100)], "n": 1}
    mine = Snapshot(shared)
    assert mine["n"] == 1
    assert dict.__getitem__(mine, "rows") is shared["rows"]
    assert mine["rows"] is not shared["rows"]
