"""A call that took effect is not repeated because its result cannot be used, whatever the tool is."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fork_server
from modules.folder import needs_node
from ropewalk import App, Toolbox, flow
from ropewalk.errors import OutputValidationFailed

from .ledger import BODIES, CHAIN, Ledger, Provider, experience, local_tools, repeatable

pytestmark = pytest.mark.process

SERVER = Path(__file__).parent.parent / "mcp_servers" / "payments.py"
LOCAL = (
    "wrong_type", "wrong_type_async", "not_a_number", "within_itself", "unwritable", "holds_a_lock", "chunks",
)  # fmt: skip
MCP = ("text", "structured", "missing", "malformed", "claims")
both_stores = pytest.mark.parametrize("durable", [False, True], ids=["memory", "sqlite"])


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setenv("LEDGER", str(tmp_path / "ledger"))
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def provider(ledger: Ledger) -> Iterator[Provider]:
    server = Provider(ledger)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def app_with(tmp_path: Path, durable: bool, tools: Any = ()) -> App:
    store = f"sqlite:///{tmp_path / 'runs.db'}" if durable else "memory"
    return App(store, toolbox=Toolbox(tools, strict_output=True))


def chain(tool: str, **node: Any) -> dict[str, Any]:
    return {"id": "c", "name": "c", "nodes": [{"id": "pay", "type": "tool", "tool": tool, **node}], **CHAIN}


async def paid_once(app: App, document: Any, ledger: Ledger) -> dict[str, Any]:
    """Run a definition that pays once and fails, and give its error."""
    outcome = await app.run(document)
    assert ledger.payments == 1
    assert outcome.status == "failed"
    error: dict[str, Any] = outcome.to_dict()["errors"][0]
    assert error["ran"] is True
    if app.store.durable:
        [step] = [step for step in app.runs.get(outcome.run_id)["nodes"] if step["kind"] == "call_failed"]
        assert step["error"]["result"], "the record holds what the tool gave"
    return error


def mcp(ledger: Ledger) -> dict[str, Any]:
    return {
        "command": fork_server.program("python"),
        "args": [str(SERVER)],
        "env": {"LEDGER": str(ledger.path)},
    }


@both_stores
@pytest.mark.parametrize("what", LOCAL)
async def test_local_tools(tmp_path: Path, ledger: Ledger, what: str, durable: bool) -> None:
    async with app_with(tmp_path, durable, [local_tools(ledger)[what]]) as app:
        error = await paid_once(app, chain(what), ledger)
        assert error["kind"] == "OutputValidationFailed"


@both_stores
@pytest.mark.parametrize("what", MCP)
@pytest.mark.parametrize("lent", [False, True])
async def test_mcp_tools(tmp_path: Path, ledger: Ledger, what: str, durable: bool, lent: bool) -> None:
    """Also a tool that claims to be read-only: a server's word is not trusted. Nor when the tool is lent."""
    async with Toolbox(strict_output=True) as box:
        box.add_mcp("bank", mcp(ledger))
        await box.connect("bank")
        given: Any = [box.lend(f"bank:{what}")] if lent else box
        async with app_with(tmp_path, durable, given if lent else []) as app:
            if not lent:
                app.toolbox.add_mcp("bank", mcp(ledger))
            error = await paid_once(app, chain(f"bank:{what}"), ledger)
            assert error["kind"] == "OutputValidationFailed"


@both_stores
@pytest.mark.parametrize("what", BODIES)
async def test_provider_tools(tmp_path: Path, ledger: Ledger, provider: Provider, what: str, durable: bool) -> None:
    gc.freeze()  # the collection below then goes through what is new, and not through all that is in memory
    async with app_with(tmp_path, durable) as app:
        app.toolbox.add_provider("bank", provider.config)
        error = await paid_once(app, chain(f"bank:{what}"), ledger)
        assert error["kind"] == "OutputValidationFailed"
    gc.collect()  # the HTTP library leaves a generator to the collector where the encoding is wrong
    await asyncio.sleep(0)


@both_stores
@pytest.mark.parametrize(
    ("file", "returns"),
    [
        pytest.param("pay.mjs", "{ state_delta: { receipt: NaN } }", marks=needs_node),
        pytest.param("pay.mjs", "'paid'", marks=needs_node),
        pytest.param("pay.mjs", "undefined", marks=needs_node),
        pytest.param("pay.mjs", "{ get state_delta () { throw new TypeError('trap') } }", marks=needs_node),
        pytest.param("pay.mjs", "{ state_delta: { receipt: 'seven' } }", marks=needs_node),
        ("pay.py", "{'state_delta': {'receipt': float('nan')}}"),
        ("pay.py", "'paid'"),
        ("pay.py", "{'state_delta': {'receipt': 'seven'}}"),
    ],
)
async def test_modules_of_experiences(tmp_path: Path, ledger: Ledger, file: str, returns: str, durable: bool) -> None:
    """Also a delta that the state refuses."""
    async with app_with(tmp_path, durable) as app:
        outcome = await app.run(experience(tmp_path / "payments", file, returns))
        assert ledger.payments == 1
        assert outcome.status == "failed"
        assert outcome.to_dict()["errors"][0]["ran"] is True


@both_stores
async def test_an_executor_of_ones_own(tmp_path: Path, ledger: Ledger, durable: bool) -> None:
    async def execute(name: str, args: dict[str, Any]) -> Any:
        ledger.pay()
        return object()

    async with app_with(tmp_path, durable) as app:
        outcome = await app.run(chain("anything"), executor=execute)
        assert ledger.payments == 1
        assert outcome.to_dict()["errors"][0]["ran"] is True


@both_stores
@pytest.mark.parametrize("hint", ["readOnlyHint", "idempotentHint"])
async def test_a_repeatable_tool_is_tried_again(tmp_path: Path, ledger: Ledger, hint: str, durable: bool) -> None:
    async with app_with(tmp_path, durable, [repeatable(ledger, hint)]) as app:
        outcome = await app.run(chain("look"))
        assert ledger.payments == 4
        assert "ran" not in outcome.to_dict()["errors"][0]


# --- what is around the node ----------------------------------------------------------------------

PAY = {"id": "pay", "type": "tool", "tool": "wrong_type"}
ONCE = {**PAY, "errorStrategy": "stop"}
AROUND: dict[str, dict[str, Any]] = {
    "parallel": {"type": "parallel", "nodes": [ONCE]},
    "loop": {"type": "loop", "maxIterations": 2, "nodes": [PAY]},
    "items": {"type": "loop", "items": [1, 2], "nodes": [PAY]},
    "condition": {"type": "condition", "condition": "true", "then": [PAY]},
}


@both_stores
@pytest.mark.parametrize("around", AROUND)
async def test_retries_of_blocks_around_it(tmp_path: Path, ledger: Ledger, around: str, durable: bool) -> None:
    async with app_with(tmp_path, durable, [local_tools(ledger)["wrong_type"]]) as app:
        outcome = await app.run(
            {"id": "c", "name": "c", "nodes": [{"id": "around", "errorStrategy": "retry", **AROUND[around]}], **CHAIN}
        )
        assert ledger.payments == 1
        assert outcome.status == "failed"


INNER: dict[str, dict[str, Any]] = {
    "chain": {"kind": "chain", "id": "inner", "name": "inner", "nodes": [ONCE]},
    "composition": {
        "kind": "composition",
        "id": "inner",
        "name": "inner",
        "nodes": [{"id": "pay", "type": "tool", "tool": "wrong_type"}],
    },
    "composite": {"kind": "composite", "name": "inner", "description": "", "steps": [{"tool": "wrong_type"}]},
}


@both_stores
@pytest.mark.parametrize("kind", INNER)
@pytest.mark.parametrize("deep", [1, 2])
async def test_retries_of_flows_around_it(tmp_path: Path, ledger: Ledger, kind: str, deep: int, durable: bool) -> None:
    """A flow that failed for such a result is not called again either, however deep the call is."""
    async with app_with(tmp_path, durable, [local_tools(ledger)["wrong_type"]]) as app:
        made = app.as_tool(INNER[kind])
        for level in range(deep):
            app.toolbox.register(made)
            outer = {"kind": "chain", "id": f"o{level}", "name": f"o{level}", **CHAIN}
            outer["nodes"] = [{"id": "flow", "type": "tool", "tool": made.id}]
            made = app.as_tool(outer)
        outcome = await app.run(outer)
        assert ledger.payments == 1
        assert outcome.to_dict()["errors"][0]["ran"] is True


@both_stores
async def test_a_flow_whose_own_output_schema_refuses_its_value(tmp_path: Path, ledger: Ledger, durable: bool) -> None:
    async def pay() -> Any:
        ledger.pay()
        return "paid"

    inner = {"kind": "composition", "id": "inner", "name": "inner", "outputSchema": {"type": "integer"}}
    inner["nodes"] = [{"id": "pay", "type": "tool", "tool": "pay"}]
    async with app_with(tmp_path, durable, [pay]) as app:
        app.toolbox.register(app.as_tool(inner))
        outcome = await app.run(chain("inner"))
        assert outcome.status == "failed"
        assert ledger.payments == 1


async def test_a_result_that_the_store_does_not_take(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ropewalk.journal.sql.blobs.MAX_BYTES", 100_000)

    async def pay() -> str:
        ledger.pay()
        return "x" * 200_000

    async with app_with(tmp_path, True, [pay]) as app:
        error = await paid_once(app, chain("pay"), ledger)
        assert "200,002 bytes of JSON" in error["message"]


@both_stores
async def test_python_flows(tmp_path: Path, ledger: Ledger, durable: bool) -> None:
    wrong_type = local_tools(ledger)["wrong_type"]
    with flow("payments") as f, f.options(attempts=4).block():
        f.options(attempts=4).call(wrong_type)
    made = f.done()
    async with app_with(tmp_path, durable, [wrong_type]) as app:
        await paid_once(app, made, ledger)


async def test_the_error_of_a_single_call_holds_the_result(ledger: Ledger) -> None:
    async with App("memory", toolbox=Toolbox(local_tools(ledger).values(), strict_output=True)) as app:
        with pytest.raises(OutputValidationFailed) as caught:
            await app.runner.run("wrong_type")
        assert caught.value.ran
        assert caught.value.result.value == "paid"
        with pytest.raises(OutputValidationFailed) as caught:
            await app.runner.run("within_itself")
        assert caught.value.result.text.startswith("[[")
        assert len(caught.value.result.text) <= 2000
