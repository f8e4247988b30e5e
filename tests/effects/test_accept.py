"""Rejected results in the record: a person looks, then accepts them, or has the tool called again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patience import BOUND
from ropewalk import App, Toolbox
from ropewalk.errors import InvalidValue, NotFound, NothingToRetry, StoreError
from ropewalk.journal.protocol import Store
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.testing import ScriptedModel, results_in, wants

from .ledger import CHAIN, Ledger, local_tools

NEXT = {"id": "next", "type": "tool", "tool": "next_step", "params": {"receipt": "$output.pay"}}


def next_step(receipt: Any) -> str:
    return f"next: {receipt}"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = SqliteStore(tmp_path / "store.db", poll=0.05)
    yield made
    made.close()


def chain(tool: str) -> dict[str, Any]:
    nodes = [{"id": "pay", "type": "tool", "tool": tool}, NEXT]
    return {"id": "c", "name": "c", "nodes": nodes, **CHAIN}


def tools(ledger: Ledger) -> list[Any]:
    return [*local_tools(ledger).values(), next_step]


async def test_the_recorded_result_is_used(store: Store, ledger: Ledger) -> None:
    async with App(store, toolbox=Toolbox(tools(ledger), strict_output=True)) as app:
        await app.run(chain("wrong_type"), run_id="r")
        [step] = [step for step in app.runs.get("r")["nodes"] if step["node"] == "pay"]
        assert step["error"]["result"] == {"value": "paid"}
        done = await app.runs.retry("r", accept=["pay"])
        assert (done.status, done.results) == ("completed", {"pay": "paid", "next": "next: paid"})
        assert ledger.payments == 1
        # It is part of the record from now on.
        again = await app.runs.retry("r", ["next"])
        assert again.results["next"] == "next: paid"
        assert ledger.payments == 1


async def test_a_result_that_is_not_json_needs_a_value(store: Store, ledger: Ledger) -> None:
    async with App(store, toolbox=Toolbox(tools(ledger), strict_output=True)) as app:
        await app.run(chain("holds_a_lock"), run_id="r")
        with pytest.raises(NothingToRetry, match=r"the result of pay is not JSON \(.*Holder.*\); give a value"):
            await app.runs.retry("r", accept=["pay"])
        with pytest.raises(InvalidValue, match=r"accept\.pay: nan is not JSON"):
            await app.runs.retry("r", accept={"pay": float("nan")})
        done = await app.runs.retry("r", accept={"pay": {"ids": [1, 2]}})
        assert done.results == {"pay": {"ids": [1, 2]}, "next": "next: {'ids': [1, 2]}"}
        assert ledger.payments == 1


async def test_without_accept_the_tool_is_called_again_and_that_is_said(store: Store, ledger: Ledger) -> None:
    events: list[Any] = []
    async with App(store, toolbox=Toolbox(tools(ledger), strict_output=True)) as app:
        await app.run(chain("wrong_type"), run_id="r")
        done = await app.runs.retry("r", on_event=events.append)
        assert done.status == "failed"
    assert ledger.payments == 2
    [said] = [event for event in events if event.kind == "call.repeated"]
    assert (said.path, said.node, said.data) == ("pay", "pay", {"tool": "wrong_type"})


async def test_what_cannot_be_accepted_is_refused_and_nothing_is_called(store: Store, ledger: Ledger) -> None:
    async with App(store, toolbox=Toolbox(tools(ledger), strict_output=True)) as app:
        await app.run(chain("wrong_type"), run_id="r")
        for accept, kind, said in (
            (["pai"], NotFound, "did you mean 'pay'"),
            (["next"], NotFound, "it has not run"),
        ):
            with pytest.raises(kind, match=said):
                await app.runs.retry("r", accept=accept)
        with pytest.raises(NothingToRetry, match="cannot be accepted and run again"):
            await app.runs.retry("r", ["pay"], accept=["pay"])
        await app.runs.retry("r", accept=["pay"])
        with pytest.raises(NothingToRetry, match="next has no rejected result"):
            await app.runs.retry("r", accept=["next"])
    assert ledger.payments == 1


async def test_items_of_a_loop(store: Store, ledger: Ledger) -> None:
    async def pay(item: int) -> dict:  # type: ignore[type-arg]
        ledger.pay()
        return {"paid": item} if item < 2 else item  # type: ignore[return-value]

    nodes = [{"id": "pay", "type": "tool", "tool": "pay", "params": {"item": "$item"}, "errorStrategy": "continue"}]
    loop = {"id": "each", "type": "loop", "items": [1, 2, 3], "concurrency": 3, "nodes": nodes}
    async with App(store, toolbox=Toolbox([pay], strict_output=True)) as app:
        run = await app.run({"id": "c", "name": "c", "nodes": [loop]}, run_id="r")
        assert (run.status, ledger.payments) == ("partial", 3)
        with pytest.raises(NothingToRetry, match="give values by path"):
            await app.runs.retry("r", accept={"pay": 7})
        done = await app.runs.retry("r", accept={"each[1]/pay": {"paid": "two"}, "each[2]/pay": {"paid": "three"}})
        assert done.results["each"] == [{"paid": 1}, {"paid": "two"}, {"paid": "three"}]
        assert (done.status, ledger.payments) == ("completed", 3)


async def test_a_node_of_a_flow_inside(store: Store, ledger: Ledger) -> None:
    inner = {
        "kind": "chain",
        "id": "inner",
        "name": "inner",
        "nodes": [{"id": "pay", "type": "tool", "tool": "wrong_type"}],
    }
    async with App(store, toolbox=Toolbox(tools(ledger), strict_output=True)) as app:
        app.toolbox.register(app.as_tool(inner))
        await app.run({"id": "o", "name": "o", "nodes": [{"id": "flow", "type": "tool", "tool": "inner"}]}, run_id="r")
        with pytest.raises(NotFound, match="no node 'pai'; did you mean 'pay'"):
            await app.runs.retry("r", accept=["pai"])
        done = await app.runs.retry("r", accept=["pay"])
        assert (done.status, ledger.payments) == ("completed", 1)


async def test_a_node_of_a_flow_inside_by_its_path(store: Store, ledger: Ledger) -> None:
    """Two calls of one flow, one of them two flows deep: a path says which result is accepted."""
    both_have_paid = threading.Barrier(2, timeout=BOUND)

    def pay_together() -> Any:
        ledger.pay()
        both_have_paid.wait()
        return object()

    pay = {"id": "pay", "type": "tool", "tool": "pay_together"}
    inner = {"kind": "chain", "id": "inner", "name": "inner", "nodes": [pay]}
    middle_nodes = [{"id": "deep", "type": "tool", "tool": "inner"}]
    middle = {"kind": "chain", "id": "middle", "name": "middle", "nodes": middle_nodes}
    calls = [{"id": "first", "type": "tool", "tool": "inner"}, {"id": "second", "type": "tool", "tool": "middle"}]
    outer = {"id": "o", "name": "o", "nodes": [{"id": "both", "type": "parallel", "nodes": calls}]}
    async with App(store, toolbox=Toolbox([*tools(ledger), pay_together], strict_output=True)) as app:
        app.toolbox.register(app.as_tool(inner))
        app.toolbox.register(app.as_tool(middle))
        await app.run(outer, run_id="r")
        assert ledger.payments == 2
        with pytest.raises(NotFound, match="no node 'both/second/deep/pai'; did you mean 'both/second/deep/pay'"):
            await app.runs.retry("r", accept={"both/second/deep/pai": 2, "both/first/pay": 1})
        with pytest.raises(NotFound, match="no node 'both/third/pay'"):
            await app.runs.retry("r", accept={"both/third/pay": 2})
        done = await app.runs.retry("r", accept={"both/second/deep/pay": "two", "both/first/pay": "one"})
        assert (done.status, ledger.payments) == ("completed", 2)
        assert done.results["both"] == {"first": {"pay": "one"}, "second": {"deep": {"pay": "two"}}}


async def test_a_store_in_memory_keeps_nothing_to_accept(ledger: Ledger) -> None:
    async with App("memory", toolbox=Toolbox(tools(ledger), strict_output=True)) as app:
        await app.run(chain("wrong_type"), run_id="r")
        with pytest.raises(StoreError, match="a store in memory"):
            await app.runs.retry("r", accept=["pay"])


async def test_secrets_in_a_rejected_result_are_not_recorded(
    store: Store, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BANK_TOKEN", "hunter2hunter2")

    def pay(token: str) -> dict:  # type: ignore[type-arg]
        return f"paid with {token}"  # type: ignore[return-value]

    nodes = [{"id": "pay", "type": "tool", "tool": "pay", "params": {"token": "$secret.BANK_TOKEN"}}]
    async with App(store, toolbox=Toolbox([pay], strict_output=True), secrets=["BANK_TOKEN"]) as app:
        await app.run({"id": "c", "name": "c", "nodes": nodes}, run_id="r")
        told = str(app.runs.get("r"))
    assert "paid with $secret.BANK_TOKEN" in told
    assert "hunter2" not in told


async def test_a_model_hears_that_the_call_took_effect(ledger: Ledger) -> None:
    agent = {"kind": "agent", "name": "payer", "prompt": "Pay.", "tools": ["wrong_type"]}
    model = ScriptedModel(wants("wrong_type"), "Done.")
    async with App("memory", toolbox=Toolbox(tools(ledger), strict_output=True), model=model) as app:
        done = await app.run(agent)
    assert done.status == "completed"
    [block] = results_in(model.requests[1])
    assert "The tool did run" in str(block)
    assert "Do not call it again" in str(block)
