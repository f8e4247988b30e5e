"""Undo in documents of each notation: the undo of a call, and the policy of the document."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ropewalk import App, InvalidFlow, tool
from ropewalk.testing import ScriptedModel, wants

pytestmark = pytest.mark.anyio
UNDO = {"tool": "cancel", "args": {"id": "$result.id"}}


class Shop:
    """A shop whose tools have no undo of their own: the documents name it."""

    def __init__(self) -> None:
        self.book: list[str] = []

    def tools(self) -> list[Any]:
        @tool
        async def order(item: str) -> dict[str, str]:
            self.book.append(f"order {item}")
            return {"id": item}

        @tool
        async def cancel(id: str) -> str:
            self.book.append(f"cancel {id}")
            return id

        @tool
        async def fail() -> str:
            raise ValueError("no more")

        return [order, cancel, fail]


def experience(policy: dict[str, str]) -> dict[str, Any]:
    nodes = [
        {"id": "one", "kind": "call", "tool": "order", "args": {"item": "a"}, "undo": UNDO},
        {"id": "ask", "kind": "agent", "prompt": "order", "tools": ["order"], "undos": {"order": UNDO}},
        {"id": "last", "kind": "call", "tool": "fail"},
    ]
    edges = [{"from": "one", "to": "ask"}, {"from": "ask", "to": "last"}]
    state = {"schema": {}}
    return {"name": "e", "version": "0.1.0", **policy, "state": state, "graph": {"nodes": nodes, "edges": edges}}


def agent(policy: dict[str, str]) -> dict[str, Any]:
    tools, undos = ["order", "cancel"], {"order": UNDO}
    return {"kind": "agent", "prompt": "order", "tools": tools, "undos": undos, "max_rounds": 3, **policy}


DOCUMENTS: dict[str, Callable[[dict[str, str]], dict[str, Any]]] = {
    "composition": lambda policy: {
        "kind": "composition",
        "name": "c",
        "nodes": [
            {"id": "one", "type": "tool", "tool": "order", "inputMapping": {"item": "a"}, "undo": UNDO},
            {"id": "each", "type": "map", "tool": "order", "items": ["b"], "inputMapping": {"item": "$item"},
             "undo": UNDO},
            {"id": "last", "type": "tool", "tool": "fail", "inputMapping": {}},
        ],
        **policy,
    },
    "composite": lambda policy: {
        "kind": "composite",
        "name": "c",
        "steps": [
            {"tool": "order", "inputMapping": {"item": "a"}, "undo": UNDO},
            {"tool": "order", "inputMapping": {"item": "b"}, "undo": UNDO},
            {"tool": "fail"},
        ],
        **policy,
    },
    "experience": experience,
    "agent": agent,
}  # fmt: skip


def source(name: str, folder: Path, policy: dict[str, str]) -> Any:
    document = DOCUMENTS[name](policy)
    if name != "experience":
        return document
    (folder / "experience.yaml").write_text(yaml.safe_dump(document))
    return folder


def model(name: str) -> ScriptedModel:
    """A model that orders. The agent document reaches its limit in the third turn, so its run fails."""
    turns = [wants("order", {"item": item}) for item in "ab"]
    return ScriptedModel(*turns, wants("order", {"item": "c"})) if name == "agent" else ScriptedModel(turns[1], "done")


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("name", DOCUMENTS)
async def test_the_undos_of_a_document_take_its_calls_back(name: str, asked: bool, tmp_path: Path) -> None:
    shop = Shop()
    async with App("memory", tools=shop.tools(), model=model(name)) as app:
        flow = source(name, tmp_path, {} if asked else {"undo": "on_failure"})
        outcome = await app.run(flow, run_id="r")
        assert outcome.status == "failed", outcome
        if asked:
            assert [step for step in shop.book if step.startswith("cancel")] == []
            await app.runs.undo("r")
        report = app.runs.undo_report("r")
    assert report is not None
    assert report["status"] == "undone"
    assert shop.book == ["order a", "order b", "cancel b", "cancel a"]


@pytest.mark.parametrize("name", DOCUMENTS)
async def test_a_wrong_undo_in_a_document_is_found_before_any_call(name: str, tmp_path: Path) -> None:
    shop = Shop()
    async with App("memory", tools=shop.tools(), model=model(name)) as app:
        flow = source(name, tmp_path, {"undo": "on_failur"})
        with pytest.raises(InvalidFlow, match=r"undo: .*on_failur"):
            await app.run(flow)
        document = DOCUMENTS[name]({})
        text = yaml.safe_dump(document).replace("$result.id", "$result.nr").replace("tool: cancel", "tool: cancell")
        wrong = yaml.safe_load(text)
        if name == "experience":
            (tmp_path / "experience.yaml").write_text(text)
            wrong = tmp_path
        with pytest.raises(InvalidFlow) as caught:
            await app.run(wrong)
    assert any("cancell" in problem.message and "undo.tool" in problem.path for problem in caught.value.problems)
    assert shop.book == []


@pytest.mark.parametrize("target", ["chain", "composition", "composite", "experience"])
async def test_a_converted_document_keeps_its_undos(target: str) -> None:
    node = {"id": "one", "type": "tool", "undo": UNDO, "tool": "order", "inputMapping": {"item": "$input.item"}}
    composition = {"kind": "composition", "name": "c", "undo": "on_failure", "nodes": [node]}
    shop = Shop()
    async with App("memory", tools=shop.tools()) as app:
        converted = app.convert(composition, target)
        assert converted["undo"] == "on_failure"
        await app.run(converted, {"item": "a"}, run_id="r")
        await app.runs.undo("r")
    assert shop.book == ["order a", "cancel a"]
