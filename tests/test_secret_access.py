"""Which secrets a definition may read: those that the project allows, and never the server's own token."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App
from ropewalk.config.project import read_config
from ropewalk.errors import ConfigError, InvalidFlow
from ropewalk.events import Event
from ropewalk.testing import ScriptedModel, ScriptedTools

VALUE = "tok-Vx81-QqLm"
A, B = "tok-12345", "tok-12345-extended-PRIVATE"


def reads(name: str, **more: Any) -> dict[str, Any]:
    node = {"id": "a", "type": "tool", "tool": "echo", "params": {"text": f"$secret.{name}"}, **more}
    return {"kind": "chain", "nodes": [node]}


async def echo(text: Any) -> Any:
    """Give it back."""
    return text


def ran(document: Any, *, executor: Any = None, **more: Any) -> str:
    async def main() -> str:
        async with App("memory", tools=[echo], **more) as app:
            return str((await app.run(document, executor=executor)).to_dict())

    return asyncio.run(main())


@pytest.mark.parametrize("name", ["TOKEN", "HOME", "ROPEWALK_TOKEN"])
def test_a_name_that_is_not_allowed_is_a_problem_of_the_definition(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, VALUE)
    with pytest.raises(InvalidFlow) as caught:
        ran(reads(name), secrets=["OTHER"])
    (problem,) = caught.value.problems
    assert problem.path == "nodes[0].params.text"
    assert problem.message.startswith(f"$secret.{name}")
    assert VALUE not in str(caught.value)


def test_a_name_that_is_allowed_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", VALUE)
    assert "'a': '$secret.TOKEN'" in ran(reads("TOKEN"), secrets=["TOKEN"])


def test_the_nearest_allowed_name_is_suggested() -> None:
    with pytest.raises(InvalidFlow, match=re.escape("did you mean API_TOKEN?")):
        ran(reads("API_TOKNE"), secrets=["API_TOKEN"])


def test_an_executor_does_not_lift_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", VALUE)
    tools = ScriptedTools(echo=lambda text: text)
    with pytest.raises(InvalidFlow, match=r"nodes\[0\].params.text: \$secret.TOKEN may not be read"):
        ran(reads("TOKEN"), executor=tools, secrets=["OTHER"])
    assert tools.calls == []


def test_a_run_that_was_started_with_more_secrets_is_refused_them_when_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The definition was checked where it was started; whoever resumes it may allow less."""
    monkeypatch.setenv("TOKEN", VALUE)
    tools = ScriptedTools(echo=lambda text: text)
    chain = {"kind": "chain", "nodes": [{"id": "w", "type": "wait", "event": "go"}, *reads("TOKEN")["nodes"]]}

    async def main() -> str:
        async with App(tmp_path / "runs.db", secrets=["TOKEN"]) as app:
            await app.run(chain, run_id="r", executor=tools, park=True)
        async with App(tmp_path / "runs.db", secrets=["OTHER"]) as app:
            app.runs.send("r", "go", None)
            return str((await app.resume("r", executor=tools)).to_dict())

    assert "$secret.TOKEN may not be read" in asyncio.run(main())
    assert tools.calls == []


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["ROPEWALK_TOKEN"], "which no definition may read"),
        *(([name], "is not the name of") for name in ("A B", 5, "")),
    ],
)
def test_what_cannot_be_allowed(names: list[Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        App("memory", secrets=names)
    if all(isinstance(name, str) for name in names):
        (tmp_path / "ropewalk.toml").write_text(f"[secrets]\nallow = {names}\n")
        with pytest.raises(ConfigError, match=said) as caught:
            read_config(tmp_path)
        assert caught.value.problems[0].place is not None
        assert caught.value.problems[0].place.line == 2


def test_a_project_allows_by_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "ropewalk.toml").write_text('[secrets]\nallow = ["A", "B"]\nhttp = ["B"]\n')
    app = App.open(tmp_path, store="memory")
    assert app.secrets == {"A", "B"}
    assert app.http_secrets == {"B"}
    (tmp_path / "ropewalk.toml").write_text('[secrets]\nallow = ["A"]\nhttp = ["B"]\n')
    with pytest.raises(ConfigError, match=r"\[secrets\] http: B must be in allow, too"):
        read_config(tmp_path)


def test_a_flow_as_a_tool_reads_what_its_app_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", VALUE)

    async def main() -> str:
        async with App("memory", tools=[echo], secrets=["TOKEN"]) as app:
            app.toolbox.register(app.as_tool({**reads("TOKEN"), "name": "inner"}))
            inside = {"kind": "chain", "nodes": [{"id": "x", "type": "tool", "tool": "inner"}]}
            return f"{await app.call_tool('inner')} {(await app.run(inside)).to_dict()}"

    told = asyncio.run(main())
    assert told.count("'a': '$secret.TOKEN'") == 3
    assert VALUE not in told


@pytest.mark.parametrize("order", [("A", "B"), ("B", "A")])
def test_a_secret_that_begins_like_another_leaves_no_rest(
    order: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the other one is read only later."""
    monkeypatch.setenv("A", A)
    monkeypatch.setenv("B", B)
    called: list[str] = []

    async def show(text: str) -> str:
        """Show both."""
        called.append(text)
        return f"{text}, {B}, {A}"

    async def main() -> str:
        events: list[Event] = []
        async with App(str(tmp_path / "s.db"), tools=[show], secrets=["A", "B"]) as app:
            nodes = [{"id": n, "type": "tool", "tool": "show", "params": {"text": f"$secret.{n}"}} for n in order]
            done = await app.run({"kind": "chain", "nodes": nodes}, run_id="r", on_event=events.append)
            return f"{done.to_dict()} {events} {app.runs.export('r')}"

    told = asyncio.run(main())
    assert called == [{"A": A, "B": B}[name] for name in order]
    everything = told + "".join(file.read_bytes().decode("utf-8", "replace") for file in tmp_path.iterdir())
    assert "extended" not in everything
    assert A not in everything
    assert "$secret.A, $secret.B, $secret.A" in told


def test_an_agent_is_told_a_secret_and_nobody_else_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", VALUE)
    model = ScriptedModel(
        {"calls": [{"name": "echo", "input": {"text": f"with {VALUE}"}}]}, f"It is {VALUE}, or {VALUE[:9]}…"
    )  # fmt: skip
    agent = {"kind": "agent", "name": "a", "system": "Use ${$secret.TOKEN}.", "prompt": "go", "tools": ["echo"]}

    async def main() -> str:
        events: list[Event] = []
        async with App(str(tmp_path / "s.db"), tools=[echo], model=model, secrets=["TOKEN"]) as app:
            done = await app.run(agent, run_id="r", on_event=events.append)
            return f"{done.to_dict()} {events} {app.runs.export('r')} {await app.runs.arguments('r')}"

    told = asyncio.run(main())
    assert VALUE in str(model.requests[0])
    everything = told + "".join(file.read_bytes().decode("utf-8", "replace") for file in tmp_path.iterdir())
    assert "It is $secret.TOKEN, or $secret.TOKEN…" in told
    assert VALUE[:9] not in everything


def test_rows_in_postgres_hold_no_secret(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    monkeypatch.setenv("TOKEN", VALUE)
    nodes = [
        {"id": "a", "type": "tool", "tool": "echo", "params": {"text": "Bearer ${secret.TOKEN}"}, "outputVar": "t"},
        {"id": "b", "type": "transform", "input": ["$secret.TOKEN"], "outputVar": "u",
         "transform": {"type": "map", "config": {"expression": "{'k': $item}"}}},
    ]  # fmt: skip
    upper = {"id": "c", "type": "tool", "tool": "echo", "params": {"text": "${upper(string(var.u))}"}}

    async def main() -> str:
        tools = ScriptedTools(echo=lambda text: text)
        async with App(postgres_url, secrets=["TOKEN"]) as app:
            with pytest.raises(InvalidFlow) as refused:
                await app.run({"kind": "chain", "nodes": [*nodes, upper]}, executor=tools)
            outcome = await app.run({"kind": "chain", "nodes": nodes}, run_id="r", executor=tools)
            return f"{refused.value} {outcome.to_dict()}"

    told = asyncio.run(main())
    assert "'upper' would change $secret.TOKEN" in told
    server, _, schema = postgres_url.rpartition("schema=")
    with psycopg.connect(server.rstrip("?&")) as session:
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
        tables = [name for (name,) in session.execute(query, [schema]).fetchall()]
        rows = [str(session.execute(f"SELECT * FROM {schema}.{name}").fetchall()) for name in tables]
    assert len(tables) > 3
    everything = "".join(rows).lower() + told.lower()
    assert "$secret.token" in everything
    assert VALUE.lower() not in everything
    assert VALUE.lower().encode().hex() not in everything
