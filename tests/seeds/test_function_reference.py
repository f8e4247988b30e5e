"""The function reference of tool chains: its own sentences as tests."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from ropewalk import App

CHAIN: dict[str, Any] = {"name": "c", "mode": "sequential", "nodes": [{"id": "a", "type": "tool", "tool": "t"}]}


async def test_chain_objects_are_serialized_to_json_and_stay_as_they_are() -> None:
    async with App("memory") as app:
        stored = await app.chains.create_chain(CHAIN)
        composition = await app.compositions.create_composition({"name": "d", "nodes": CHAIN["nodes"]})
        done = await app.chains.execute_chain(stored["id"], {}, lambda name, params: "x")
    for record in (stored, composition, done):
        assert json.loads(json.dumps(record)) == record.to_dict()
        assert copy.deepcopy(record) == pickle.loads(pickle.dumps(record)) == record == dict(record)
        with pytest.raises(TypeError, match="change a copy: to_dict"):
            record["name"] = "other"
    assert ("errorStrategy" in stored, stored.get("error_strategy")) == (True, "stop")
    changed = {**stored}
    changed["nodes"][0]["tool"] = "u"
    again = await app.chains.get_chain(stored["id"])
    assert again["nodes"][0]["tool"] == "t"  # type: ignore[index, call-overload]
