"""Creating, keeping, copying: the documented functions but the executing ones, on every store."""

from __future__ import annotations

import copy
import json
import uuid
from typing import Any

import pytest

import ropewalk
from chains.conftest import run
from ropewalk.app.app import App
from ropewalk.errors import InvalidFlow, NotFound
from ropewalk.notations.chain.read import ChainMode, ErrorStrategy
from ropewalk.notations.node_types import NodeType

A = {"id": "a", "type": "tool", "tool": "t"}
EVERYTHING: dict[str, Any] = {
    "name": "all of it",
    "description": "one of each",
    "mode": "sequential",
    "errorStrategy": "retry",
    "maxRetries": 1,
    "retryDelay": 2.5,
    "timeout": 0,
    "concurrency": 2,
    "maxIterations": 3,
    "variables": {"v": {"k": [1, None, "$input"]}},
    "inputSchema": {"type": "object"},
    "nodes": [
        {"id": "a", "type": "tool", "tool": "t", "params": {"x": "$input.y"}, "outputVar": "v", "onSuccess": ["c"]},
        {"id": "b", "type": "delay", "delay": 5, "condition": "false", "description": "waits"},
        {
            "id": "c",
            "type": "condition",
            "condition": "$var.v",
            "then": [{"id": "d", "type": "tool", "tool": "t", "errorStrategy": "fallback", "fallback": None}],
            "otherwise": [{"id": "e", "type": "parallel", "concurrency": 1, "nodes": [{**A, "id": "f"}]}],
        },
        {"id": "l", "type": "loop", "items": [1], "nodes": [{**A, "id": "g", "onError": ["h"]}, {**A, "id": "h"}]},
        {"id": "m", "type": "loop", "until": "true", "maxIterations": 2, "nodes": [{**A, "id": "i"}]},
        {"id": "t", "type": "transform", "input": [1], "transform": {"type": "map", "config": {"expression": "$item"}}},
    ],
}


def test_a_created_chain_has_every_documented_default(address: str) -> None:
    """CHAIN-CONFIG-1 CHAIN-CONFIG-2 CHAIN-CONFIG-3"""

    async def body() -> None:
        async with App(address) as app:
            chain = await app.chains.create_chain({"nodes": [A]})
            assert str(uuid.UUID(chain.id)) == chain.id
            data = chain.to_dict()
            assert data.pop("metadata").keys() == {"created", "runCount"}
            assert data == {
                "id": chain.id, "name": "", "description": "", "mode": "sequential", "nodes": [A],
                "errorStrategy": "stop", "maxRetries": 3, "retryDelay": 1000, "timeout": 0, "variables": {},
                "concurrency": 8, "maxIterations": 10,
            }  # fmt: skip

    run(body())


def test_chains_are_kept_listed_and_deleted(address: str) -> None:
    """CHAIN-STORE-1 CHAIN-STORE-5 CHAIN-FN-4"""

    async def body() -> None:
        async with App(address) as app:
            chains = app.chains
            await chains.create_chain({"id": "x", "name": "X", "description": "d", "mode": "DAG", "nodes": [A]})
            await chains.create_chain(id="y", nodes=[A])
            listed = await chains.list_chains()
            assert [set(one) for one in listed] == [
                {"id", "name", "description", "mode", "nodeCount", "runCount", "created"}
            ] * 2
            assert [(one.id, one.name, one.mode, one.node_count, one.run_count) for one in listed] == [
                ("x", "X", "dag", 1, 0),
                ("y", "", "sequential", 1, 0),
            ]
            assert (await chains.get_chain("x")).name == "X"
            assert await chains.delete_chain("x") is True
            assert await chains.delete_chain("x") is False
            assert await chains.get_chain("x") is None
            assert await chains.get_execution_status("x") is None
            assert await chains.get_execution_details("x") is None
            assert await chains.list_executions("x") == []
            assert [one.id for one in await chains.list_chains()] == ["y"]

    run(body())


def test_a_chain_with_the_id_of_another_takes_its_place(address: str) -> None:
    """CHAIN-FN-4"""

    async def body() -> None:
        async with App(address) as app:
            await app.chains.create_chain(id="x", name="old", nodes=[A])
            await app.chains.create_chain(id="x", name="new", nodes=[A, {**A, "id": "b"}])
            assert [(c.name, c.node_count) for c in await app.chains.list_chains()] == [("new", 2)]

    run(body())


def test_a_clone_is_a_deep_copy_under_a_new_id(address: str) -> None:
    """CHAIN-STORE-2"""

    async def body() -> None:
        async with App(address) as app:
            source = await app.chains.create_chain({**EVERYTHING, "id": "source"})
            plain = await app.chains.clone_chain("source")
            assert plain.id != "source"
            assert without_dates(plain) == without_dates(source)
            plain.nodes[0]["params"]["x"] = "changed"
            assert await app.chains.get_chain("source") == source
            other = await app.chains.clone_chain("source", {"error_strategy": "SKIP", "mode": "sequential"}, name="n")
            assert (other.error_strategy, other.name, other.max_retries) == ("skip", "n", 1)
            named = await app.chains.clone_chain("source", {"id": "mine", "nodes": [A]})
            assert (named.id, len(named.nodes)) == ("mine", 1)
            assert await app.chains.get_chain("source") == source
            with pytest.raises(InvalidFlow, match="did you mean errorStrategy"):
                await app.chains.clone_chain("source", {"errorStrategi": "skip"})
            with pytest.raises(NotFound, match="did you mean 'source'"):
                await app.chains.clone_chain("sorce")

    run(body())


@pytest.mark.parametrize("id", ["source", "taken"])
def test_a_clone_takes_no_others_id(address: str, id: str) -> None:
    """CHAIN-STORE-2"""

    async def body() -> None:
        async with App(address) as app:
            made = [await app.chains.create_chain(id=one, name=one, nodes=[A]) for one in ("source", "taken")]
            with pytest.raises(InvalidFlow, match=f"^id: there is a chain '{id}' already"):
                await app.chains.clone_chain("source", {"id": id, "name": "copy"})
            assert [await app.chains.get_chain(one) for one in ("source", "taken")] == made
            app.compositions.core.create(id="free", nodes=[A])  # an id is that of a chain among chains
            assert (await app.chains.clone_chain("source", {"id": "free"})).name == "source"

    run(body())


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ("x", "overrides: must be an object of the fields to replace, not a string"),
        ([("name", "n")], "overrides: must be an object of the fields to replace, not a list"),
        ({"retry_delay": 7, "retryDelay": 8}, "retryDelay: is defined twice, also as retry_delay"),
        ({"retryDelay": 8, "retry_delay": 7}, "retry_delay: is defined twice, also as retryDelay"),
        ({5: 6}, "the key 5 is not a valid JSON string"),
    ],
)
def test_what_a_clone_cannot_be_made_with_is_told(overrides: Any, said: str) -> None:
    """CHAIN-STORE-2"""

    async def body() -> None:
        async with App("memory") as app:
            await app.chains.create_chain({**EVERYTHING, "id": "source"})
            with pytest.raises(InvalidFlow) as caught:
                await app.chains.clone_chain("source", overrides)
            assert str(caught.value).startswith(said)
            assert [one.id for one in await app.chains.list_chains()] == ["source"]

    run(body())


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("composition", "kind: this is a composition, not a chain"),
        ("experience", "kind: this is an experience, not a chain"),
        ("chian", "kind: unknown kind 'chian'; expected one of: "),
    ],
)
def test_what_says_that_it_is_of_another_kind_is_not_stored(kind: str, said: str) -> None:
    """CHAIN-STORE-1 CHAIN-STORE-2 CHAIN-STORE-3"""

    async def body() -> None:
        async with App("memory") as app:
            chains = app.chains
            document = {"kind": kind, "nodes": [A]}
            await chains.create_chain(id="source", kind="chain", nodes=[A])
            for making in (
                chains.create_chain(document),
                chains.import_chain(json.dumps(document)),
                chains.clone_chain("source", {"kind": kind}),
            ):
                with pytest.raises(InvalidFlow) as caught:
                    await making
                assert str(caught.value).startswith(said)
            assert [one.id for one in await chains.list_chains()] == ["source"]
            with pytest.raises(InvalidFlow, match=r"^kind: this is a chain, not a composition$"):
                await app.compositions.create_composition(kind="chain", nodes=[A])

    run(body())


def test_an_exported_chain_is_imported_under_a_new_id(address: str) -> None:
    """CHAIN-STORE-3 CHAIN-STORE-4"""

    async def body() -> None:
        async with App(address) as app:
            source = await app.chains.create_chain({**EVERYTHING, "id": "source"})
            text = await app.chains.export_chain("source")
            assert json.loads(text)["nodes"] == EVERYTHING["nodes"]
            for given in (text, text.encode(), json.loads(text)):
                back = await app.chains.import_chain(given)
                assert back.id not in ("source", None)
                assert without_dates(back) == without_dates(source)
            with pytest.raises(NotFound):
                await app.chains.export_chain("none")

    run(body())


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "5", b"\xff", "{} {}", '{"nodes": [NaN]}', 7, None])
def test_what_is_no_exported_chain_is_refused(text: Any) -> None:
    """CHAIN-STORE-3"""

    async def body() -> None:
        async with App("memory") as app:
            with pytest.raises(InvalidFlow):
                await app.chains.import_chain(text)

    run(body())


def test_what_is_done_to_the_config_later_changes_nothing(address: str) -> None:
    """CHAIN-CONFIG-6"""

    async def body() -> None:
        async with App(address) as app:
            config = {"id": "c", "variables": {"v": [1]}, "nodes": [{**A, "params": {"xs": [1], "v": "$var.v"}}]}
            before = copy.deepcopy(config)
            made = await app.chains.create_chain(config)
            assert config == before
            config["nodes"][0]["params"]["xs"].append(2)
            config["variables"]["v"].append(2)
            made.nodes[0]["params"]["xs"].append(3)
            made["variables"]["v"].append(3)
            kept = await app.chains.get_chain("c")
            assert kept.nodes[0]["params"]["xs"] == [1]

            async def careless(tool: str, params: dict[str, Any]) -> Any:
                params["xs"].append(4)
                params["v"].append(4)
                return params

            for _ in range(2):
                result = await app.chains.execute_chain("c", None, careless)
                assert (result.results["a"], result.variables) == ({"xs": [1, 4], "v": [1, 4]}, {"v": [1]})
            assert await app.chains.get_chain("c") == {**kept.to_dict(), "metadata": {**kept.metadata, "runCount": 2}}

    run(body())


@pytest.mark.parametrize(
    ("bad", "place", "what"),
    [
        (float("nan"), "nodes[0].params.x[1]", "nan"),
        (float("-inf"), "nodes[0].params.x[1]", "inf"),
        (2**63, "nodes[0].params.x[1]", "9223372036854775808"),
        ("a\0b", "nodes[0].params.x[1]", "NUL"),
        ("\ud800", "nodes[0].params.x[1]", "surrogate"),
        (object(), "nodes[0].params.x[1]", "object is not JSON"),
        ({1: 2}, "nodes[0].params.x[1]", "the key 1"),
        (b"x", "nodes[0].params.x[1]", "bytes is not JSON"),
        ({1, 2}, "nodes[0].params.x[1]", "set is not JSON"),
    ],
)
def test_values_that_are_no_json_are_problems_with_a_place(bad: Any, place: str, what: str) -> None:
    """CHAIN-BAD-11"""

    async def body() -> None:
        async with App("memory") as app:
            with pytest.raises(InvalidFlow) as refused:
                await app.chains.create_chain(nodes=[{**A, "params": {"x": [0, bad]}}])
            assert [p.path for p in refused.value.problems] == [place]
            assert what in str(refused.value)

    run(body())


def test_tuples_and_enums_are_what_they_stand_for(address: str) -> None:
    """CHAIN-FN-8"""

    async def body() -> None:
        async with App(address) as app:
            chain = await app.chains.create_chain(
                mode=ChainMode.DAG,
                error_strategy=ErrorStrategy.CONTINUE,
                nodes=({"id": "a", "type": NodeType.TOOL, "tool": "t", "params": {"xs": (1, 2)}},),
            )
            assert (chain.mode, chain.error_strategy, type(chain.mode)) == ("dag", "continue", str)
            assert chain.nodes == [{"id": "a", "type": "tool", "tool": "t", "params": {"xs": [1, 2]}}]

    run(body())


def test_the_enums_are_those_of_the_document() -> None:
    """CHAIN-FN-8"""
    assert [mode.name for mode in ropewalk.ChainMode] == ["SEQUENTIAL", "PARALLEL", "CONDITIONAL", "LOOP", "DAG"]
    assert [s.value for s in ropewalk.ErrorStrategy] == ["stop", "continue", "retry", "fallback", "skip"]
    named = {"TOOL", "CONDITION", "LOOP", "PARALLEL", "TRANSFORM", "DELAY"}
    assert named <= {kind.name for kind in ropewalk.NodeType}
    assert ropewalk.toolchain.ChainMode is ropewalk.ChainMode


def test_records_read_like_the_documents(address: str) -> None:
    """CHAIN-FN-9"""

    async def body() -> None:
        async with App(address) as app:
            chain = await app.chains.create_chain(id="c", nodes=[A])
            assert chain.error_strategy == chain["errorStrategy"] == chain["error_strategy"] == "stop"
            assert chain.to_dict()["errorStrategy"] == "stop"
            assert "error_strategy" not in chain.to_dict()
            assert chain.metadata["runCount"] == 0
            assert json.loads(json.dumps(chain.to_dict())) == chain.to_dict() == chain == dict(chain)
            assert "maxRetries" in chain
            with pytest.raises(AttributeError, match="did you mean 'max_retries'"):
                _ = chain.max_retry
            with pytest.raises(KeyError):
                _ = chain["maxRetry"]
            assert copy.deepcopy(chain) == chain

    run(body())


@pytest.mark.parametrize("id", ["", "no such", "a\0b", "\ud800", "../x", 5, None, ["a"]])
def test_ids_that_nothing_can_have_are_unknown_everywhere(address: str, id: Any) -> None:
    """CHAIN-STORE-5 DUR-8"""

    async def body() -> None:
        async with App(address) as app:
            chains = app.chains
            assert await chains.get_chain(id) is None
            assert await chains.get_execution_status(id) is None
            assert await chains.get_execution_details(id) is None
            assert await chains.delete_chain(id) is False
            assert await chains.stop_execution(id) is False
            assert await chains.list_executions(id) == []
            for ask in (chains.execute_chain, chains.export_chain, chains.clone_chain):
                with pytest.raises(NotFound):
                    await ask(id)

    run(body())


def without_dates(chain: Any) -> dict[str, Any]:
    return {key: value for key, value in chain.to_dict().items() if key not in ("id", "metadata")}
