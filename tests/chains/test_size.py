"""Large, deep and hostile chains: in seconds, or refused with a clear error."""

from __future__ import annotations

import time
from typing import Any

import pytest

from chains.conftest import run
from ropewalk.app.app import App
from ropewalk.errors import InvalidFlow
from tiers import Scale

MOST = 10_000


async def give(name: str, params: dict[str, Any]) -> Any:
    return params.get("x", 0)


def nodes(mode: str, count: int) -> list[dict[str, Any]]:
    found = []
    for i in range(count):
        node: dict[str, Any] = {"id": f"n{i}", "type": "tool", "tool": "t", "params": {"x": i}}
        node["outputVar"] = f"v{i % 7}"
        if mode == "dag" and i:
            node["dependsOn"] = [f"n{i // 2}"] if i % 2 else [f"n{i - 1}"]
        if mode == "sequential" and i:
            node["params"] = {"x": "$prev", "y": f"$output.n{i - 1}"}
        found.append(node)
    return found


@pytest.mark.campaign("sizes")
@pytest.mark.parametrize("mode", ["sequential", "parallel", "dag", "loop"])
def test_ten_thousand_nodes_in_a_few_seconds(address: str, mode: str, scale: Scale) -> None:
    """DUR-6"""
    count = scale(1_000, MOST)

    async def body() -> None:
        async with App(address) as app:
            start = time.process_time()
            await app.chains.create_chain(id="c", mode=mode, timeout=0, nodes=nodes(mode, count), maxIterations=1)
            result = await app.chains.execute_chain("c", None, give)
            assert (result.status, len(result.results)) == ("completed", count)
            assert (await app.chains.get_execution_status(result.execution_id)).result_count == count
            assert time.process_time() - start < 20  # a few on an idle machine

    run(body())


@pytest.mark.campaign("sizes")
def test_a_dag_declared_backwards(address: str, scale: Scale) -> None:
    """DUR-6"""
    count = scale(600, 3000)

    async def body() -> None:
        async with App(address) as app:
            made = nodes("parallel", count)
            for i, node in enumerate(made):
                node |= {"outputVar": "v", "dependsOn": [f"n{i - 1}"] if i else []}
            start = time.process_time()
            await app.chains.create_chain(id="c", mode="dag", timeout=0, nodes=made[::-1])
            result = await app.chains.execute_chain("c", None, give)
            assert (result.status, result.variables) == ("completed", {"v": count - 1})
            assert time.process_time() - start < 20

    run(body())


def test_one_node_too_many() -> None:
    """DUR-6"""

    async def body() -> None:
        async with App("memory") as app:
            with pytest.raises(InvalidFlow, match="more than 10,000 nodes"):
                await app.chains.create_chain(nodes=nodes("parallel", MOST + 1))

    run(body())


def nested(depth: int) -> dict[str, Any]:
    node: dict[str, Any] = {"id": "leaf", "type": "tool", "tool": "t"}
    for i in range(depth):
        node = {"id": f"n{i}", "type": "condition", "condition": "true", "then": [node]}
    return node


def test_nesting_up_to_the_limit(address: str) -> None:
    """DUR-6"""

    async def body() -> None:
        async with App(address) as app:
            await app.chains.create_chain(id="c", nodes=[nested(63)])
            assert (await app.chains.execute_chain("c", None, give)).results == {"n62": 0}

    run(body())


@pytest.mark.parametrize("depth", [64, 100, 5000])
def test_deeper_nesting_is_refused(depth: int) -> None:
    """DUR-6"""

    async def body() -> None:
        async with App("memory") as app:
            with pytest.raises(InvalidFlow, match="nested deeper than"):
                await app.chains.create_chain(nodes=[nested(depth)])

    run(body())


@pytest.mark.parametrize("depth", [500, 100_000])
def test_deep_params_are_refused(depth: int) -> None:
    """DUR-6"""
    value: Any = 1
    for _ in range(depth):
        value = [value]

    async def body() -> None:
        async with App("memory") as app:
            with pytest.raises(InvalidFlow, match="nested deeper than"):
                await app.chains.create_chain(nodes=[{"id": "a", "type": "tool", "tool": "t", "params": {"x": value}}])

    run(body())


def test_a_value_that_holds_itself_is_refused() -> None:
    """DUR-6"""
    value: list[Any] = []
    value.append(value)

    async def body() -> None:
        async with App("memory") as app:
            with pytest.raises(InvalidFlow, match="nested deeper than"):
                await app.chains.create_chain(nodes=[{"id": "a", "type": "tool", "tool": "t", "params": {"x": value}}])

    run(body())
