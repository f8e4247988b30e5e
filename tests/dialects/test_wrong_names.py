"""Names and ids of any type in a document are problems with their place, and never an exception of Python."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ropewalk import App
from ropewalk.errors import InvalidFlow

WRONG: list[Any] = [["x"], [], {"x": 1}, {}, 5, -1, 1e308, True, "", " ", ["x", 5]]
STEP = {"type": "tool", "tool": "echo"}
CHAIN = {"kind": "chain", "nodes": [{"id": "a", **STEP, "outputVar": "v"}, {"id": "b", **STEP, "outputVar": "w"},
         {"id": "l", "type": "loop", "items": [1], "nodes": [{"id": "i", **STEP}]}]}  # fmt: skip
COMPOSITION = {"kind": "composition", "nodes": [{"id": "a", **STEP, "outputVar": "v"}, {"id": "b", **STEP}]}
COMPOSITE = {"kind": "composite", "name": "c", "mode": "compose", "inputSchema": {"type": "object"},
             "steps": [{"name": "s", "tool": "echo", "inputMapping": {}}]}  # fmt: skip
EXPERIENCE = {
    "kind": "experience", "name": "x", "version": "0.1.0", "state": {"schema": {"n": {"type": "number"}}},
    "graph": {
        "nodes": [{"id": "a", "kind": "call", "tool": "echo"}, {"id": "b", "kind": "value", "value": 1},
                  {"id": "c", "kind": "value", "value": 1}, {"id": "d", "kind": "value", "value": 1}],
        "edges": [{"from": "a", "to": "c"}, {"from": "c", "to": "d"}],
        "loops": [{"id": "l", "body": ["b"]}], "pipelines": [{"id": "p", "items": [], "stages": ["d"]}],
    },
}  # fmt: skip
PLACES: list[tuple[dict[str, Any], tuple[Any, ...]]] = [
    *((CHAIN, ("nodes", i, key)) for i in (0, 1) for key in ("id", "tool", "outputVar", "name")),
    (CHAIN, ("nodes", 2, "id")), (CHAIN, ("nodes", 2, "nodes", 0, "id")), (CHAIN, ("name",)),
    *((COMPOSITION, ("nodes", 0, key)) for key in ("id", "tool", "outputVar")),
    (COMPOSITE, ("name",)), (COMPOSITE, ("steps", 0, "name")), (COMPOSITE, ("steps", 0, "tool")),
    *((EXPERIENCE, ("graph", part, 0, "id")) for part in ("nodes", "loops", "pipelines")),
    (EXPERIENCE, ("graph", "loops", 0, "body")), (EXPERIENCE, ("graph", "pipelines", 0, "stages")),
    (EXPERIENCE, ("graph", "edges", 0, "from")), (EXPERIENCE, ("graph", "edges", 0, "to")), (EXPERIENCE, ("name",)),
]  # fmt: skip


@pytest.mark.parametrize(("document", "place"), PLACES, ids=[f"{d['kind']}:{p}" for d, p in PLACES])
def test_a_name_of_another_type_is_a_problem_of_its_place(document: dict[str, Any], place: tuple[Any, ...]) -> None:
    app = App("memory")
    app.load(document)
    for wrong in WRONG:
        changed = copy.deepcopy(document)
        holder: Any = changed
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = wrong
        try:
            app.load(changed)
        except InvalidFlow as error:
            path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place).removeprefix(".")
            told = [problem.path for problem in error.problems]
            assert any(one.startswith(path) or path.startswith(one) for one in told), (wrong, told)
        else:
            fine = isinstance(wrong, str) or (place[-1] in ("body", "stages", "outputVar") and wrong == ["x"])
            assert fine, (place, wrong)


def test_two_loops_of_one_name_are_a_problem() -> None:
    document: Any = copy.deepcopy(EXPERIENCE)
    document["graph"]["nodes"].append({"id": "e", "kind": "value", "value": 1})
    document["graph"]["edges"].append({"from": "b", "to": "e"})
    document["graph"]["loops"] = [{"id": "l", "body": ["b", "e"]}, {"id": "l", "body": ["b", "e"]}]
    with pytest.raises(InvalidFlow, match="already used"):
        App("memory").load(document)


def test_names_of_several_types_are_told_together() -> None:
    document = copy.deepcopy(CHAIN)
    document["nodes"][0]["outputVar"], document["nodes"][1]["outputVar"] = 5, ["x", "y"]  # type: ignore[index]
    with pytest.raises(InvalidFlow) as caught:
        App("memory").load(document)
    assert [problem.path for problem in caught.value.problems] == ["nodes[0].outputVar", "nodes[1].outputVar"]


@pytest.mark.parametrize("kind", ["chain", "composition"])
def test_steps_instead_of_nodes_are_one_problem(kind: str) -> None:
    with pytest.raises(InvalidFlow) as caught:
        App("memory").load({"kind": kind, "name": "c", "steps": [{"id": "a", **STEP}]})
    assert [str(problem) for problem in caught.value.problems] == ["steps: unknown key; did you mean nodes?"]
