"""The builder over the real n8n-mcp, with a scripted model."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ropewalk import tool
from ropewalk.agents import Answer
from ropewalk.app.app import App
from ropewalk.errors import CompletionFailed, ConfigError, JournalConflict, ModelError
from ropewalk.journal.address import open_store
from ropewalk.journal.memory import MemoryStore
from ropewalk.n8n.builder import Built, WorkflowBuilder, as_json, as_text
from ropewalk.testing import ScriptedModel, results_in, wants

from .conftest import Lab
from .script import BROKEN, CONFIGURED, FOUND, RELINK, TASK, URL, WORDS, mended, say

pytestmark = pytest.mark.process


def built(app: App, *, tools: Any = True, times: int = 1, **options: Any) -> Built:
    async def run() -> Built:
        async with app:
            builder = WorkflowBuilder(app, tools=tools)
            for _ in range(times):
                done = await builder.build(TASK, **options)
            return done

    return asyncio.run(run())


def tools_of(app: App) -> list[list[str]]:
    assert isinstance(app.model, ScriptedModel)
    return [[one["name"] for one in request.tools] for request in app.model.requests]


@pytest.mark.node
def test_a_workflow_of_three_nodes_from_a_prompt(lab: Lab) -> None:
    app = lab.app(
        [wants("search_nodes", {"query": "slack", "limit": 3}), wants("validate_workflow", {"workflow": {}})],
        say(FOUND),
        wants("validate_node_minimal", {"nodeType": "nodes-base.httpRequest", "config": {}}),
        say(CONFIGURED),
        WORDS,
    )
    phases: list[str] = []
    done = built(app, run_id="joke", on_phase=phases.append)
    assert (done.valid, done.problems, done.repairs, done.degraded) == (True, (), 0, ())
    assert phases == ["discovery", "configuration", "building", "validation", "documentation"]
    flow: Any = done.workflow
    assert list(flow) == ["name", "nodes", "connections", "settings"]
    assert [(one["name"], one["type"]) for one in flow["nodes"]] == [
        ("Every morning", "n8n-nodes-base.scheduleTrigger"),
        ("Get a joke", "n8n-nodes-base.httpRequest"),
        ("Post it", "n8n-nodes-base.slack"),
    ]
    assert len({one["id"] for one in flow["nodes"]}) == 3
    assert all(one["typeVersion"] > 1 for one in flow["nodes"])
    assert [one["position"] for one in flow["nodes"]] == [[0, 0], [240, 0], [480, 0]]
    assert flow["connections"]["Get a joke"] == {"main": [[{"node": "Post it", "type": "main", "index": 0}]]}
    assert flow["settings"] == {"executionOrder": "v1"}
    assert done.credentials == [{"node": "Post it", "types": ["slackApi"]}]
    assert done.documentation == WORDS

    # Each phase has its own tools, and the call of another phase's was not made.
    discovery = ["search_nodes", "get_node_info", "list_node_types"]
    configuration = ["search_node_properties", "get_node_documentation", "validate_node_minimal"]
    assert tools_of(app) == [discovery, discovery, configuration, configuration, []]
    assert isinstance(app.model, ScriptedModel)
    found, refused = results_in(app.model.requests[1])
    assert len(json.loads(found["content"])["results"]) == 3
    assert refused["is_error"] is True
    assert "there is no tool 'validate_workflow' here" in refused["content"]
    assert '"URL"' in results_in(app.model.requests[3])[0]["content"]
    # What is known beforehand is in the prompts.
    assert "nodes-base.slackTrigger" in app.model.requests[0].messages[0]["content"]
    assert "scheduleTrigger" in app.model.requests[2].messages[0]["content"]
    assert (done.usage["input_tokens"], done.usage["output_tokens"]) == (50, 25)
    assert done.cost == 0.0
    assert [call["tool"] for call in done.trace if "value" in call["outcome"]] == [
        "n8n-builder:search_nodes",
        "n8n-builder:validate_node_minimal",
    ]
    assert "Post it: slackApi" in as_text(done)
    assert as_json(done)["valid"] is True


@pytest.mark.node
def test_a_broken_draft_is_repaired_in_rounds_and_kept(lab: Lab) -> None:
    app = lab.app(
        say(FOUND),
        say(BROKEN),
        mended({**URL, "id": "fetch"}, URL, RELINK[0]),
        wants("get_input_schema", {"nodeType": "slack"}),
        mended(RELINK[1]),
        WORDS,
        store=MemoryStore(durable=True),
    )
    done = built(app, times=2, run_id="joke")
    assert (done.valid, done.problems, done.repairs, done.documentation) == (True, (), 2, WORDS)
    assert isinstance(app.model, ScriptedModel)
    first, second = (app.model.requests[at].messages[0]["content"] for at in (2, 3))
    assert "Required property 'URL' cannot be empty" in first
    assert "a connection goes from node 'gett', which does not exist; did you mean 'get'?" in first
    assert "operation 1 (set_parameters): it names node 'fetch', which does not exist" in second
    assert "node 'post' is not reachable from a trigger" in second
    assert "Required property 'URL'" not in second
    validation = ["validate_workflow", "check_connections", "get_input_schema", "get_output_schema"]
    assert tools_of(app)[2:5] == [validation] * 3
    assert "commonProperties" in results_in(app.model.requests[4])[0]["content"]
    assert [phase.name for phase in done.phases][3:5] == ["validation-1", "validation-2"]
    assert len(tools_of(app)) == 6  # built again under its id it asked nothing again


@pytest.mark.node
def test_an_empty_draft_is_refused_although_n8n_mcp_calls_it_valid(lab: Lab) -> None:
    nothing = say({"name": "Nothing", "nodes": []})
    app = lab.app(nothing, say({"nodes": [], "connections": []}), *[mended()] * 5, WORDS)
    done = built(app)
    assert (done.valid, done.repairs) == (False, 0)  # five rounds, and nothing was changed
    assert done.problems == ("the workflow is empty: it has no nodes",)
    assert len(tools_of(app)) == 2 + 5 + 1  # bounded


@pytest.mark.node
def test_a_model_that_will_not_repair_leaves_the_draft_and_what_is_wrong_with_it(lab: Lab) -> None:
    refusal = Answer(content=[{"type": "text", "text": "No."}], stop_reason="refusal", cost=0.0)
    done = built(lab.app(say(FOUND), say(BROKEN), mended(URL), refusal, WORDS))
    assert (done.valid, done.repairs, done.documentation) == (False, 1, WORDS)
    assert "a connection goes from node 'gett', which does not exist; did you mean 'get'?" in done.problems
    assert "validation-2: without a result: the model refused to continue" in done.degraded


@pytest.mark.node
def test_a_round_of_which_nothing_could_be_done_is_no_repair(lab: Lab) -> None:
    refused = mended({**URL, "id": "fetch"}, {"op": "set_parameters"})
    done = built(lab.app(say(FOUND), say(BROKEN), refused, mended(URL, *RELINK), WORDS))
    assert (done.valid, done.repairs) == (True, 1)
    assert [phase.name for phase in done.phases][3:5] == ["validation-1", "validation-2"]


@pytest.mark.node
def test_a_build_that_failed_goes_on_where_the_model_gave_no_answer(lab: Lab) -> None:
    store = f"sqlite:///{lab.home}/runs.db"
    with pytest.raises(CompletionFailed, match="overloaded"):
        built(lab.app(say(FOUND), ModelError("overloaded"), store=store), run_id="joke")
    app = lab.app(say(CONFIGURED), WORDS, store=store)
    done = built(app, run_id="joke")
    assert (done.valid, done.repairs, done.documentation) == (True, 0, WORDS)
    assert [tool for tools in tools_of(app) for tool in tools][:1] == ["search_node_properties"]
    other = lab.app("never asked", store=store)
    with pytest.raises(JournalConflict, match="belongs to the build of 'Every morning"):
        asyncio.run(WorkflowBuilder(other).build("Something else", run_id="joke"))
    assert tools_of(other) == []


@pytest.mark.node
def test_tools_can_be_switched_off(lab: Lab) -> None:
    app = lab.app(say(FOUND), say(CONFIGURED), WORDS)
    done = built(app, tools=False)
    assert (done.valid, done.degraded) == (True, ())
    assert tools_of(app) == [[], [], []]


@pytest.mark.campaign("recovery", only=True)
@pytest.mark.node
def test_a_server_killed_in_the_middle_of_a_phase_is_started_again(lab: Lab) -> None:
    def killing(request: Any) -> Any:
        lab.kill()
        return wants("search_nodes", {"query": "slack", "limit": 1})

    app = lab.app(killing, say(FOUND), say(CONFIGURED), WORDS)
    done = built(app)
    assert done.valid is True
    assert len(lab.started) == 2
    assert isinstance(app.model, ScriptedModel)
    assert "slack" in results_in(app.model.requests[1])[0]["content"]


@pytest.mark.node
@pytest.mark.campaign("faults", only=True)
def test_a_server_that_stays_dead_leaves_a_workflow_that_nobody_judged(lab: Lab) -> None:
    def for_good(request: Any) -> Any:
        lab.kill(for_good=True)
        return wants("search_nodes", {"query": "slack"})

    app = lab.app(for_good, say(FOUND), say(CONFIGURED), WORDS)
    done = built(app)
    assert done.valid is None
    assert done.problems == ()
    assert [phase.success for phase in done.phases] == [True] * 5
    assert isinstance(app.model, ScriptedModel)
    assert results_in(app.model.requests[1])[0]["is_error"] is True
    assert any(line.startswith("configuration: without tools: could not connect to n8n-mcp") for line in done.degraded)
    assert "not validated" in as_text(done)


def test_a_build_is_one_run_that_fails_where_its_result_is_not_valid(bare: Callable[..., App], tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    first = bare(say(FOUND), say(CONFIGURED), WORDS, store=store)
    done = built(first, run_id="joke")
    assert (done.valid, done.run_id, done.phases[0].run_id) == (None, "joke", "joke/build/discovery")
    with contextlib.closing(open_store(store)) as kept:
        [row] = kept.list_runs(top=True)
        assert (row.id, row.name, row.status) == ("joke", "n8n-build", "failed")
        assert row.error["message"] == "build: the workflow is not valid: it was not validated"
        parts = {part.id: part.status for part in kept.list_runs(parent="joke")}
        phases = ("discovery", "configuration", "documentation")
        assert parts == {f"joke/build/{phase}": "completed" for phase in phases}
    again = bare("never asked", store=store)
    same = built(again, run_id="joke")
    assert (same.valid, same.workflow, same.documentation) == (None, done.workflow, WORDS)
    assert tools_of(again) == []


@pytest.mark.node
def test_what_is_valid_has_completed_and_is_read_back(lab: Lab) -> None:
    store = f"sqlite:///{lab.home}/runs.db"
    done = built(lab.app(say(FOUND), say(CONFIGURED), WORDS, store=store), run_id="joke")
    app = lab.app("never asked", store=store)
    assert built(app, run_id="joke") == done
    with contextlib.closing(open_store(store)) as kept:
        assert [(row.id, row.status) for row in kept.list_runs(top=True)] == [("joke", "completed")]
        assert {part.id for part in kept.list_runs(parent="joke")} >= {"joke/build/judge", "joke/build/search"}


def test_without_n8n_mcp_it_says_how_to_install_it(bare: Callable[..., App]) -> None:
    done = built(bare(say(FOUND), say(CONFIGURED), WORDS))
    assert (done.valid, done.problems) == (None, ())
    assert (
        "discovery: without tools: n8n-mcp is not installed; install it with `npm install n8n-mcp`" in done.degraded[0]
    )
    nodes: Any = done.workflow["nodes"]
    assert [node["type"] for node in nodes] == [
        "n8n-nodes-base.scheduleTrigger",
        "n8n-nodes-base.httpRequest",
        "n8n-nodes-base.slack",
    ]


def test_a_phase_without_a_result_says_which_and_keeps_the_answer(bare: Callable[..., App]) -> None:
    with pytest.raises(CompletionFailed, match="configuration: no result to continue with") as failed:
        built(bare(say(FOUND), "I would rather not."))
    assert failed.value.completion.text == "I would rather not."


def test_a_workflow_that_nobody_documents_is_still_one(bare: Callable[..., App]) -> None:
    done = built(bare(say(FOUND), say(CONFIGURED), ModelError("overloaded")))
    assert (done.documentation, done.workflow["name"]) == ("", FOUND["name"])
    assert "overloaded" in done.degraded[-1]


@pytest.mark.node
def test_a_misspelt_trigger_is_corrected_and_code_that_n8n_mcp_misreads_is_no_error(lab: Lab) -> None:
    nodes = [{"id": "t", "type": "nodes-base.gmailTrigr", "name": "Mail"}, {"id": "c", "type": "code", "name": "Pick"}]
    code = {"jsCode": "return ['a', 'b'].map(name => ({json: {name}}));"}
    configured = {
        "nodes": [{"id": "c", "parameters": code, "onError": "continueErrorOutput", "notes": "picks"}],
        "connections": [{"from": "t", "to": "c"}],
    }
    done = built(lab.app(say({"name": "Names", "nodes": nodes}), say(configured), WORDS))
    flow: Any = done.workflow
    assert (done.valid, done.problems, done.repairs) == (True, (), 0)
    assert [node["type"] for node in flow["nodes"]] == ["n8n-nodes-base.gmailTrigger", "n8n-nodes-base.code"]
    assert flow["nodes"][0]["typeVersion"] > 1
    assert {key: flow["nodes"][1][key] for key in ("onError", "notes")} == {
        "onError": "continueErrorOutput",
        "notes": "picks",
    }
    assert done.credentials == [{"node": "Mail", "types": ["gmailOAuth2"]}]
    assert "Mail: corrected the node type nodes-base.gmailTrigr to nodes-base.gmailTrigger" in done.warnings
    assert any(line.startswith("Pick: Array items must be objects") for line in done.warnings)
    assert "corrected the node type" in as_text(done)


@tool
async def columns(table: str) -> list[str]:
    """Return the columns of a table."""
    return [f"{table}.id"]


def own(app: App) -> App:
    app.toolbox.register(columns)
    return app


@pytest.mark.node
def test_phases_have_the_tools_that_the_project_names_for_them(lab: Lab) -> None:
    app = own(lab.app(say(FOUND), wants("columns", {"table": "jokes"}), say(CONFIGURED), WORDS))
    done = built(app, tools={"configuration": ["columns"], "documentation": ["columns"]})
    configuration = ["search_node_properties", "get_node_documentation", "validate_node_minimal", "columns"]
    discovery = ["search_nodes", "get_node_info", "list_node_types"]
    assert tools_of(app) == [discovery, configuration, configuration, ["columns"]]
    assert [call["tool"] for call in done.trace] == ["columns"]
    assert (done.valid, done.degraded) == (True, ())


def test_tools_of_the_project_stay_without_n8n_mcp_and_after_a_crash(bare: Callable[..., App], tmp_path: Path) -> None:
    store, tools = f"sqlite:///{tmp_path}/runs.db", {"discovery": ["columns"], "configuration": ["columns", "nothing"]}
    with pytest.raises(CompletionFailed, match="overloaded"):
        built(own(bare(say(FOUND), ModelError("overloaded"), store=store)), tools=tools, run_id="joke")
    app = own(bare(say(CONFIGURED), WORDS, store=store))
    done = built(app, tools=tools, run_id="joke")
    assert tools_of(app) == [["columns"], []]
    assert [phase.name for phase in done.phases] == [
        "discovery",
        "configuration",
        "building",
        "validation",
        "documentation",
    ]
    assert any(line.startswith("discovery: without tools: ") for line in done.degraded)
    assert any(line.startswith("configuration: ") and "nothing" in line for line in done.degraded)


@pytest.mark.usefixtures("bare")
def test_the_tools_of_phases_are_read_from_the_project(tmp_path: Path) -> None:
    (tmp_path / "ropewalk.toml").write_text('[n8n.tools]\nconfiguration = ["columns"]\n')
    app = own(App.open(tmp_path, store="memory"))
    app.model = ScriptedModel(say(FOUND), say(CONFIGURED), WORDS)
    built(app, tools=None)
    assert [("columns" in tools) for tools in tools_of(app)] == [False, True, False]
    with pytest.raises(ConfigError, match="no phase 'config' with a model; did you mean configuration"):
        WorkflowBuilder(app, tools={"config": ["columns"]})
    (tmp_path / "ropewalk.toml").write_text('[n8n.tools]\nconfiguration = "columns"\n')
    with pytest.raises(ConfigError, match=r"tools.*must be a table of phases, each with a list of tools"):
        App.open(tmp_path, store="memory")
