"""Phases: each has its own tools and no others, and goes on without them where they cannot be had."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest

from ropewalk import tool
from ropewalk.agents import Phase, Settings, run_phases
from ropewalk.agents.client import default_server, read_settings
from ropewalk.app.app import App
from ropewalk.config.project import read_config
from ropewalk.errors import CompletionFailed, ConfigError
from ropewalk.journal.memory import MemoryStore
from ropewalk.testing import ScriptedModel, results_in, wants

FOUND = {"type": "object", "properties": {"node": {"type": "string"}}, "required": ["node"]}


def make(ran: list[str]) -> list[Any]:
    @tool
    async def search_nodes(query: str) -> list[str]:
        """Find nodes."""
        ran.append("search_nodes")
        return ["httpRequest"]

    @tool
    async def validate_workflow(workflow: str) -> bool:
        """Validate."""
        ran.append("validate_workflow")
        return True

    return [search_nodes, validate_workflow]


DISCOVERY = Phase(
    name="discovery",
    prompt="Find the node for: ${$input.task}. Known: ${string($input.essentials)}",
    tools=("search_nodes",),
    output_schema=FOUND,
)
VALIDATION = Phase(name="validation", prompt="Check ${$input.results.discovery.node}", tools=("validate_workflow",))
WRITING = Phase(name="documentation", prompt="Describe ${$input.results.validation}", system="Be brief.")


def test_each_phase_has_its_own_tools_and_sees_the_results_before() -> None:
    ran: list[str] = []
    model = ScriptedModel(
        # In discovery the model also tries the tool of another phase.
        [wants("search_nodes", {"query": "http"}), wants("validate_workflow", {"workflow": "w"})],
        '{"node": "httpRequest"}',
        wants("validate_workflow", {"workflow": "w"}),
        "valid",
        "A description.",
    )

    async def run() -> Any:
        async with App("memory", tools=make(ran), model=model) as app:
            return await run_phases(
                [DISCOVERY, VALIDATION, WRITING], {"task": "call ${x} $input.y"}, essentials=[1], app=app
            )

    found = asyncio.run(run())
    assert {name: result.value for name, result in found.items()} == {
        "discovery": {"node": "httpRequest"},
        "validation": "valid",
        "documentation": "A description.",
    }
    assert all(result.success and not result.degraded for result in found.values())
    assert ran == ["search_nodes", "validate_workflow"]
    assert [[one["name"] for one in request.tools] for request in model.requests] == [
        ["search_nodes"],
        ["search_nodes"],
        ["validate_workflow"],
        ["validate_workflow"],
        [],
    ]
    prompts = [request.messages[0]["content"] for request in model.requests]
    assert prompts[0] == "Find the node for: call ${x} $input.y. Known: [1]"
    assert prompts[2] == "Check httpRequest"
    assert (prompts[4], model.requests[4].system) == ("Describe valid", "Be brief.")
    refused = results_in(model.requests[1])[1]
    assert refused["is_error"] is True
    assert "there is no tool 'validate_workflow' here" in refused["content"]


def test_a_phase_goes_on_without_tools_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:  # a port that nobody listens on
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("MCP_SERVER_URL", f"http://127.0.0.1:{port}/mcp")

    async def run() -> Any:
        async with App("memory", model=ScriptedModel('{"node": "known"}')) as app:
            return await DISCOVERY.run({"task": "x"}, essentials={"known": 1}, app=app)

    done = asyncio.run(run())
    assert (done.value, done.success) == ({"node": "known"}, True)
    assert done.degraded[0].startswith("search_nodes is left out: mcp: ")


def test_a_phase_without_any_server_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MCP_SERVER_URL", raising=False)
    done = asyncio.run(DISCOVERY.run({"task": "x"}, essentials=1, client=ScriptedModel('{"node": "n"}')))
    assert (done.value, done.success) == ({"node": "n"}, True)
    assert done.degraded[0].startswith("search_nodes is left out: no tool 'search_nodes'")


def test_phases_stop_at_the_first_without_a_result() -> None:
    async def run() -> Any:
        model = ScriptedModel("no json", "still", "never")
        return await run_phases([DISCOVERY, VALIDATION], {"task": "x"}, essentials=1, client=model)

    found = asyncio.run(run())
    assert list(found) == ["discovery"]
    assert (found["discovery"].success, found["discovery"].value) == (False, None)
    assert found["discovery"].completion.text == "never"
    assert not found.success
    assert found.unfinished is found["discovery"]
    assert "node" in found["discovery"].why or "no JSON" in found["discovery"].why
    with pytest.raises(
        CompletionFailed, match=r"'validation' was not run, because 'discovery' did not finish: invalid_json: "
    ) as why:
        found["validation"]
    assert why.value.completion is found["discovery"].completion
    assert found.get("validation") is None
    with pytest.raises(KeyError, match="no phase 'valid'; the phases are: discovery, validation"):
        found["valid"]


def test_a_phase_at_its_limit_says_so_where_a_later_one_is_asked_for() -> None:
    phase = Phase(name="a", prompt="go", max_rounds=1)
    model = ScriptedModel(lambda request: [wants("x")])
    found = asyncio.run(run_phases([phase, Phase(name="b", prompt="go")], client=model))
    assert (found["a"].success, found["a"].completion.stop_reason) == (False, "max_rounds")
    with pytest.raises(
        CompletionFailed,
        match="'b' was not run, because 'a' did not finish: max_rounds: the conversation reached max_rounds",
    ):
        found["b"]


def test_phases_called_again_after_they_ended_ask_nothing_again() -> None:
    ran: list[str] = []

    async def run() -> None:
        model = ScriptedModel(wants("search_nodes", {"query": "q"}), '{"node": "n"}', "valid", "done")
        async with App(MemoryStore(durable=True), tools=make(ran), model=model) as app:
            for _ in range(2):
                found = await run_phases([DISCOVERY, VALIDATION, WRITING], {"task": "x"}, app=app, run_id="build")
                assert found["documentation"].value == "done"
                assert len(model.requests) == 4

    asyncio.run(run())
    assert ran == ["search_nodes"]


def test_settings_come_from_the_environment_the_project_and_arguments(tmp_path: Any) -> None:
    around = {"ANTHROPIC_BASE_URL": "http://here", "ANTHROPIC_MODEL": "from-env"}
    assert read_settings({}, around) == Settings(base_url="http://here", model="from-env")
    (tmp_path / "ropewalk.toml").write_text('[claude]\nmodel = "from-file"\nmax_retries = 0\ntimeout = 5\n')
    config = read_config(tmp_path, environ={})
    assert read_settings(config.claude, around) == Settings(
        base_url="http://here", model="from-file", max_retries=0, timeout=5
    )
    app = App.open(tmp_path, store="memory")
    assert app.context.client_of("").settings.model == "from-file"  # type: ignore[attr-defined]
    (tmp_path / "ropewalk.toml").write_text("[claude]\nmodell = 3\n")
    with pytest.raises(ConfigError, match=r"\[claude\] unknown key 'modell'; did you mean model\?"):
        read_config(tmp_path, environ={})


def test_the_default_server_gets_its_bearer() -> None:
    assert default_server({}) is None
    assert default_server({"MCP_SERVER_URL": "http://x"}) == {"url": "http://x"}
    assert json.dumps(default_server({"MCP_SERVER_URL": "http://x", "SMITHERY_API_KEY": "k"})) == json.dumps(
        {"url": "http://x", "headers": {"Authorization": "Bearer ${SMITHERY_API_KEY}"}}
    )
