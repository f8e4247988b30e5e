"""Executing, looking, stopping: what cases as text cannot show, on every store."""

from __future__ import annotations

import asyncio
import re
from itertools import pairwise
from typing import Any

import pytest

from chains.conftest import run
from chains.scripted import ScriptedTools
from ropewalk.app.app import App
from ropewalk.errors import InvalidFlow, InvalidInput, JournalConflict, NotFound


def tool(id: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "tool", "tool": id, **more}


def test_an_unknown_chain_is_not_found(address: str) -> None:
    """CHAIN-EXEC-4"""

    async def body() -> None:
        async with App(address) as app:
            await app.chains.create_chain(id="orders", nodes=[tool("a")])
            with pytest.raises(NotFound, match="no chain 'order'; did you mean 'orders'"):
                await app.chains.execute_chain("order")
            with pytest.raises(NotFound):
                await app.chains.execute_chain(None)  # type: ignore[arg-type]

    run(body())


def test_a_result_has_the_documented_fields(address: str) -> None:
    """CHAIN-EXEC-1 CHAIN-EXEC-2"""

    async def body() -> None:
        async with App(address) as app:
            await app.chains.create_chain(id="c", nodes=[tool("a"), tool("b")])
            result = await app.chains.execute_chain(
                "c", None, ScriptedTools({"a": {"gives": 1, "delay": 5}, "b": {"fails": "no"}})
            )
            assert set(result) == {
                "success", "executionId", "chainId", "status", "results", "variables", "errors", "duration",
            }  # fmt: skip
            assert result.chain_id == "c"
            assert 4 <= result.duration < 5000
            [error] = result.errors
            assert error.pop("at").startswith("tests/chains/scripted.py:")
            assert error.pop("stack").endswith("RuntimeError: no")
            assert error == {
                "nodeId": "b", "path": "b", "tool": "b", "message": "no", "kind": "ExecutionFailed", "attempts": 1,
            }  # fmt: skip

    run(body())


def test_status_while_it_runs_and_after(address: str) -> None:
    """CHAIN-EXEC-5 CHAIN-EXEC-7"""

    async def body() -> None:
        async with App(address) as app:
            await app.chains.create_chain(id="c", nodes=[tool("a"), tool("b"), tool("z")])
            tools = ScriptedTools({"a": {"gives": 1}, "b": {"after": "go"}, "go": {}, "z": {"fails": "no"}})
            running = asyncio.create_task(app.chains.execute_chain("c", {"executionId": "e"}, tools))
            await tools.called("b")
            status = await app.chains.get_execution_status("e")
            assert set(status) == {
                "id", "chainId", "status", "startTime", "endTime", "currentNode", "resultCount", "errorCount",
            }  # fmt: skip
            assert (status.id, status.chain_id, status.status, status.end_time) == ("e", "c", "running", None)
            assert status.current_node == "b"
            assert [one.status for one in await app.chains.list_executions("c")] == ["running"]
            await tools("go", {})
            await running
            status = await app.chains.get_execution_status("e")
            assert (status.status, status.current_node, status.error_count) == ("failed", None, 1)
            assert status.result_count == 2
            assert status.start_time <= status.end_time
            await app.chains.execute_chain("c", {"executionId": "f"}, tools)
            assert [one.id for one in await app.chains.list_executions("c")] == ["f", "e"]
            assert (await app.chains.list_chains())[0].run_count == 2

    run(body())


def test_details_hold_every_result_attempt_and_event(address: str) -> None:
    """CHAIN-EXEC-6"""

    async def body() -> None:
        async with App(address) as app:
            nodes = [
                tool("a", errorStrategy="retry", retryDelay=0),
                {"id": "l", "type": "loop", "items": [1, 2], "nodes": [tool("b", params={"i": "$item"})]},
            ]
            await app.chains.create_chain(id="c", nodes=nodes)
            tools = ScriptedTools({"a": [{"fails": "once"}, {"gives": 1}], "b": {"echo": True}})
            result = await app.chains.execute_chain("c", {"input": {"x": 1}}, tools)
            details = await app.chains.get_execution_details(result.execution_id)
            assert (details.results, details.input, details.status) == (result.results, {"x": 1}, "completed")
            values = {step["path"]: step.get("value") for step in details.nodes if step["status"] == "ok"}
            assert values["l[0]/b"] == {"i": 1}
            assert values["l[1]/b"] == {"i": 2}
            failed = [s for s in details.nodes if s["status"] == "failed"]
            assert "a" in {s["path"] for s in failed}
            assert failed[0]["error"]["message"] == "once"
            assert {e["kind"] for e in details.events} >= {"node.finished", "attempt.failed"}
            assert all(e["runId"] == result.execution_id for e in details.events)

    run(body())


def test_details_hold_the_nodes_that_were_skipped(file: str) -> None:
    """CHAIN-EXEC-6"""

    async def body() -> None:
        async with App(file) as app:
            await app.chains.create_chain(id="c", nodes=[tool("never", condition="false")])
            result = await app.chains.execute_chain("c", None, ScriptedTools({}))
            details = await app.chains.get_execution_details(result.execution_id)
            assert [(s["path"], s["status"]) for s in details.nodes] == [("never", "skipped")]

    run(body())


def test_the_same_execution_id_at_once_runs_once(address: str) -> None:
    """CHAIN-EXEC-15 DUR-5"""

    async def body() -> None:
        async with App(address) as app:
            await app.chains.create_chain(id="c", nodes=[tool("a")])
            tools = ScriptedTools({"a": {"delay": 10, "gives": [1]}})
            results = await asyncio.gather(
                *[app.chains.execute_chain("c", {"executionId": "e", "input": 1}, tools) for _ in range(5)]
            )
            assert tools.count("a") == 1
            assert all(r == results[0] for r in results)
            results[0].results["a"].append(2)
            assert results[1].results["a"] == [1]

    run(body())


def test_an_execution_id_of_another_chain_is_a_conflict(address: str) -> None:
    """CHAIN-EXEC-15"""

    async def body() -> None:
        async with App(address) as app:
            await app.chains.create_chain(id="c", nodes=[tool("a")])
            await app.chains.create_chain(id="d", nodes=[tool("a")])
            tools = ScriptedTools({"a": {"gives": 1}})
            await app.chains.execute_chain("c", {"executionId": "e"}, tools)
            with pytest.raises(JournalConflict, match="chain 'c' has this id"):
                await app.chains.execute_chain("d", {"executionId": "e"}, tools)

    run(body())


def test_what_is_done_to_a_result_does_not_reach_the_store(address: str) -> None:
    """CHAIN-FN-9 DUR-8"""

    async def body() -> None:
        async with App(address) as app:
            await app.chains.create_chain(id="c", nodes=[tool("a", outputVar="v")])
            tools = ScriptedTools({"a": {"gives": {"k": [1]}}})
            given = {"executionId": "e", "input": {"k": [1]}, "variables": {"w": [1]}}
            result = await app.chains.execute_chain("c", given, tools)
            result.results["a"]["k"].append(2)
            result["variables"]["w"].append(2)
            given["input"]["k"].append(2)
            given["variables"]["w"].append(2)
            again = {"executionId": "e", "input": {"k": [1]}, "variables": {"w": [1]}}
            details = await app.chains.get_execution_details("e")
            details.nodes[0]["value"]["k"].append(3)
            for found in (
                await app.chains.get_execution_details("e"),
                await app.chains.execute_chain("c", again, tools),
            ):
                assert found.results == {"a": {"k": [1]}}
                assert found.variables == {"v": {"k": [1]}, "w": [1]}
            details = await app.chains.get_execution_details("e")
            assert (details.input, details.nodes[0]["value"]) == ({"k": [1]}, {"k": [1]})

    run(body())


def test_a_tool_that_goes_on_changing_what_it_gave_changes_no_result(address: str) -> None:
    """DUR-8"""

    async def body() -> None:
        async with App(address) as app:
            node = {"id": "l", "type": "loop", "items": [1, 2, 3], "nodes": [tool("a", params={"i": "$item"})]}
            await app.chains.create_chain(id="c", nodes=[node])
            seen: list[int] = []

            async def collect(name: str, params: dict[str, Any]) -> Any:
                seen.append(params["i"])
                return seen

            result = await app.chains.execute_chain("c", None, collect)
            assert result.results["l"] == [[1], [1, 2], [1, 2, 3]]

    run(body())


def test_without_an_executor_the_toolbox_is_used(address: str) -> None:
    """CHAIN-EXEC-10 CHAIN-EXEC-11"""

    def double(x: int) -> int:
        return 2 * x

    async def body() -> None:
        async with App(address, tools=[double]) as app:
            await app.chains.create_chain(id="c", nodes=[{**tool("a", params={"x": 21}), "tool": "double"}])
            assert (await app.chains.execute_chain("c")).results == {"a": 42}
            assert (await app.chains.execute_chain("c", None, ScriptedTools({"double": {"gives": 1}}))).results == {
                "a": 1
            }
            await app.chains.create_chain(id="d", nodes=[{**tool("a"), "tool": "doubel"}])
            checked = await app.validate({"nodes": [{**tool("a"), "tool": "doubel"}]})
            assert not checked.ok
            assert "did you mean double" in str(checked.problems[0])
            with pytest.raises(InvalidFlow, match=r"nodes\[0\].tool: unknown tool 'doubel'; did you mean double"):
                await app.chains.execute_chain("d")
            assert await app.chains.list_executions("d") == []

    run(body())


def test_interpolation_inside_an_expression_is_warned_of(address: str) -> None:
    async def body() -> None:
        async with App(address) as app:
            nodes = [{"id": "a", "type": "delay", "delay": 0}, {"id": "b", "type": "delay", "delay": 0}]
            for condition, told in (("'${$output.a}' == 'x'", 1), ("$output.a == 'x'", 0), ("'$' == '{'", 0)):
                checked = await app.validate({"nodes": [nodes[0], {**nodes[1], "condition": condition}]})
                assert checked.ok
                said = [w for w in checked.warnings if w.path == "nodes[1].condition" and "${...}" in w.message]
                assert len(said) == told

    run(body())


def test_plans_drawings_and_errors_speak_the_words_of_the_document(address: str) -> None:
    async def body() -> None:
        nodes = [tool("a"), {**tool("b", params={"x": "$steps[0].x"}), "condition": "$output.a.n + $var.v > 1"}]
        chain = {"variables": {"v": "w"}, "nodes": nodes}
        async with App(address) as app:
            plan = await app.preview(chain)
            assert (plan.nodes[1]["when"], plan.nodes[1]["args"]) == ("$output.a.n + $var.v > 1", '{"x": $steps[0].x}')
            for text in (plan.text(), app.draw(chain, "text"), app.draw(chain, "mermaid")):
                assert not re.search(r"\$(out|state)\b", text)
            ran = await app.run(chain, executor=ScriptedTools({"a": {"gives": {"n": 1}}, "b": {"gives": 1}}))
            assert "in `$output.a.n + $var.v`" in ran.errors[0]["message"]

    run(body())


def test_arguments_that_do_not_fit_are_not_tried_again(address: str) -> None:
    """CHAIN-ERROR-3"""
    calls: list[int] = []

    def double(x: int) -> int:
        calls.append(x)
        return 2 * x

    async def body() -> None:
        async with App(address, tools=[double]) as app:
            node = {**tool("a", params={"x": "$input"}), "tool": "double"}
            await app.chains.create_chain(id="c", errorStrategy="retry", retryDelay=0, nodes=[node])
            result = await app.chains.execute_chain("c", {"input": "text"})
            assert (result.status, result.errors[0]["kind"], result.errors[0]["attempts"]) == (
                "failed",
                "ValidationFailed",
                1,
            )
            assert calls == []

    run(body())


def test_retries_are_their_delay_apart(address: str) -> None:
    """CHAIN-ERROR-3"""

    async def body() -> None:
        async with App(address) as app:
            await app.chains.create_chain(id="c", errorStrategy="retry", retryDelay=40, nodes=[tool("a")])
            times: list[float] = []

            async def failing(name: str, params: dict[str, Any]) -> Any:
                times.append(asyncio.get_running_loop().time())
                raise RuntimeError("no")

            await app.chains.execute_chain("c", {}, failing)
            gaps = [later - earlier for earlier, later in pairwise(times)]
            assert len(gaps) == 3
            assert all(0.035 <= gap < 1 for gap in gaps)

    run(body())


def test_secrets_are_read_at_call_time_and_never_shown(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """REF-14"""

    async def body() -> None:
        async with App(address, secrets=["CHAIN_KEY"]) as app:
            params = {"key": "$secret.CHAIN_KEY", "text": "Bearer ${$secret.CHAIN_KEY}"}
            nodes = [tool("a", params=params, outputVar="v"), tool("b", params={"p": "$prev"})]
            await app.chains.create_chain(id="c", nodes=nodes)
            monkeypatch.setenv("CHAIN_KEY", "hunter22")
            tools = ScriptedTools({"a": {"echo": True}, "b": {"echo": True}})
            result = await app.chains.execute_chain("c", {"executionId": "e"}, tools)
            assert tools.calls[0] == ("a", {"key": "hunter22", "text": "Bearer hunter22"})
            assert result.results["a"] == {"key": "$secret.CHAIN_KEY", "text": "Bearer $secret.CHAIN_KEY"}
            details = await app.chains.get_execution_details("e")
            assert "hunter22" not in f"{result!r} {details!r} {await app.chains.export_chain('c')}"
            monkeypatch.delenv("CHAIN_KEY")
            result = await app.chains.execute_chain("c", None, tools)
            assert result.status == "failed"
            assert "CHAIN_KEY" in result.errors[0]["message"]

    run(body())


@pytest.mark.parametrize("strategy", ["stop", "continue", "retry", "fallback"])
def test_secrets_in_what_a_failing_tool_says_are_not_shown(
    address: str, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """REF-14"""
    monkeypatch.setenv("CHAIN_KEY", "hunter22")

    async def body() -> None:
        async with App(address, secrets=["CHAIN_KEY"]) as app:
            node = tool("a", params={"key": "$secret.CHAIN_KEY"}, fallback="$error", retryDelay=0)
            await app.chains.create_chain(id="c", nodes=[node], errorStrategy=strategy)
            tools = ScriptedTools({"a": {"fails": "denied: hunter22"}})
            result = await app.chains.execute_chain("c", {"executionId": "e"}, tools)
            row = app.store.get_run("e")
            assert "hunter22" not in f"{result!r} {await app.chains.get_execution_details('e')!r} {row!r}"

    run(body())


def test_a_chain_runs_many_times_at_once(address: str) -> None:
    """CHAIN-FN-10"""

    async def body() -> None:
        async with App(address) as app:
            await app.chains.create_chain(
                id="c",
                mode="dag",
                nodes=[
                    tool("a", params={"i": "$input"}, outputVar="v"),
                    tool("b", params={"v": "$var.v"}, dependsOn="a"),
                ],
            )
            tools = ScriptedTools({"a": {"echo": True, "delay": 2}, "b": {"echo": True}})
            results = await asyncio.gather(*[app.chains.execute_chain("c", {"input": i}, tools) for i in range(50)])
            assert [r.results["b"]["v"]["i"] for r in results] == list(range(50))
            assert len(await app.chains.list_executions("c")) == 50

    run(body())


def test_all_executions_are_listed(address: str) -> None:
    """CHAIN-EXEC-7"""

    async def body() -> None:
        async with App(address) as app:
            await app.chains.create_chain(id="c", nodes=[tool("a")])
            tools = ScriptedTools({"a": {"gives": 1}})
            ids = [f"e{i}" for i in range(103)]
            for id in ids:
                await app.chains.execute_chain("c", {"executionId": id}, tools)
            assert [one.id for one in await app.chains.list_executions("c")] == ids[::-1]
            assert len(await app.chains.list_executions()) == 103
            assert [one.id for one in await app.chains.list_executions("c", limit=2)] == ["e102", "e101"]
            for wrong in (-1, 1.5, "2"):
                with pytest.raises(InvalidInput, match=r"^limit: must be "):
                    await app.chains.list_executions("c", limit=wrong)

    run(body())


@pytest.mark.parametrize("id", ["", "a\0b", "\ud800", 5, ["a"]])
def test_an_execution_id_that_cannot_be_stored_is_refused(address: str, id: Any) -> None:
    """CHAIN-EXEC-15"""

    async def body() -> None:
        async with App(address) as app:
            await app.chains.create_chain(id="c", nodes=[tool("a")])
            with pytest.raises(InvalidFlow, match=r"context\.executionId"):
                await app.chains.execute_chain("c", {"executionId": id}, ScriptedTools({"a": {}}))

    run(body())
