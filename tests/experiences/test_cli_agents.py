"""`cli-agent` nodes: which program starts, with what, what becomes of its answer, and that no process is left."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from experiences.conftest import Make
from experiences.programs import Programs
from ropewalk import App
from ropewalk.errors import InvalidFlow


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    found = Programs(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{found.home}:/usr/bin:/bin")
    return found


def run(home: Path, input: Any = None, **more: Any) -> Any:
    async def ran() -> Any:
        async with App() as app:
            app.ensure(app.load(home))
            return await app.run(home, input, **more)

    return asyncio.run(ran())


def one(make: Make, provider: str, more: str = "", state: str = "{t: {type: string}}", top: str = "") -> Path:
    return make(
        f"nodes: [{{id: ask, kind: cli-agent, provider: {provider}, prompt: 'about {{{{$input.of}}}}', {more}}}]",
        state,
        more=top,
    )


TEXT = 'about $(x) `y` "z"'


@pytest.mark.parametrize(
    ("provider", "program", "args"),
    [
        ("claude-code", "claude", ["-p", TEXT, "--output-format", "text", "--model", "m", "--a", "b"]),
        ("codex", "codex", ["exec", "--skip-git-repo-check", "--model", "m", "--a", "b", TEXT]),
        ("gemini", "gemini", ["--yolo", "--prompt", TEXT, "--model", "m", "--a", "b"]),
    ],
)  # fmt: skip
def test_a_program_gets_the_prompt_as_one_argument_without_a_shell(
    make: Make, programs: Programs, provider: str, program: str, args: list[str]
) -> None:
    programs.set(program, gives="an answer\n")
    home = one(make, provider, "writes: [t], model: m, extra_args: ['--a', b]")
    assert run(home, {"of": '$(x) `y` "z"'}).final_state == {"t": "an answer"}
    [call] = programs.calls
    assert (call["name"], call["args"], call["cwd"]) == (program, args, str(home.resolve()))


def test_a_prompt_from_data_is_never_an_option(make: Make, programs: Programs) -> None:
    programs.set("codex", gives="x")
    home = make("nodes: [{id: a, kind: cli-agent, provider: codex, prompt: '{{$input.of}}'}]", "{}")
    run(home, {"of": "--dangerous"})
    assert programs.calls[0]["args"][-1] == " --dangerous"


def test_a_program_sees_only_the_environment_that_is_named(
    make: Make, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "t")
    monkeypatch.setenv("SECRET", "s")
    programs.set("gemini", gives="x")
    run(one(make, "gemini", "writes: [t], workdir: ./in", top="runtime: {env: [TOKEN]}") if _inside(make) else None)
    assert programs.calls[0]["env"] == {"TOKEN": "t", "SECRET": None}
    assert programs.calls[0]["cwd"].endswith("/exp/in")


def _inside(make: Make) -> Path:
    home = make("nodes: []")
    (home / "in").mkdir()
    return home


OBJECT = "{type: object, required: [found], properties: {found: {type: array}}}"


@pytest.mark.parametrize(
    "gives",
    [
        '{"found": [1]}',
        'Here you are:\n```json\n{"found": [1]}\n```\nBye.',
        json.dumps({"type": "result", "result": '{"found": [1]}'}),
        json.dumps({"type": "result", "result": '```\n{"found": [1]}\n```'}),
    ],
)
@pytest.mark.parametrize(
    "more", [f"schema: {OBJECT}, writes: [found]", f"schema: {OBJECT}, writes: [t]", "writes: [found]"]
)
def test_the_json_of_an_answer(make: Make, programs: Programs, gives: str, more: str) -> None:
    programs.set("claude", gives=gives)
    home = one(make, "claude-code", f"output_format: json, {more}", "{found: {type: array}, t: {type: array}}")
    assert list(run(home).final_state.values()) == [[1]]
    assert programs.calls[0]["args"][2:4] == ["--output-format", "json"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ({"fails": 3, "gives": "x"}, "codex exited with code 3: no login"),
        ({"gives": "not json"}, "codex did not answer with JSON"),
        ({"gives": '{"found": 3}'}, "does not fit the schema"),
        ({"gives": "[]"}, "does not fit the schema"),
        ({"floods": 11_000_000}, "wrote more than 10,000,000 bytes"),
    ],
)
def test_what_goes_wrong_is_the_failure_of_the_node(
    make: Make, programs: Programs, script: dict[str, Any], said: str
) -> None:
    programs.set("codex", **script)
    result = run(one(make, "codex", f"output_format: json, schema: {OBJECT}, writes: [t]", "{t: {type: array}}"))
    assert result.status == "failed"
    message = result.errors[0]["message"]
    assert all(part in message for part in said.split(": ")), message  # its two outputs arrive in any order
    assert "\x1b" not in result.errors[0]["message"]


def test_a_missing_program_is_told(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run(one(make, "gemini", "writes: [t]"))
    assert "the program gemini is not on the PATH" in result.errors[0]["message"]


def test_the_whole_group_is_killed_at_the_timeout(make: Make, programs: Programs) -> None:
    programs.set("claude", sleeps=60)
    result = run(one(make, "claude-code", "writes: [t], timeout_ms: 700"))
    assert "claude took longer than 700 ms" in result.errors[0]["message"]
    assert programs.alive() == []


def test_the_whole_group_is_killed_when_the_run_is_cancelled(make: Make, programs: Programs) -> None:
    programs.set("claude", sleeps=60)
    home = one(make, "claude-code", "writes: [t]")

    async def cancelled() -> None:
        async with App() as app:
            running = asyncio.create_task(app.run(home))
            await asyncio.to_thread(programs.wait_for_pids)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    asyncio.run(cancelled())
    assert programs.alive() == []


def test_a_program_runs_once_per_run(make: Make, programs: Programs, tmp_path: Path) -> None:
    programs.set("codex", gives="x")
    home = one(make, "codex", "writes: [t]")

    async def twice() -> list[Any]:
        async with App(store=f"sqlite:///{tmp_path}/runs.db") as app:
            return [await app.run(home, run_id="r1"), await app.run(home, run_id="r1")]

    first, second = asyncio.run(twice())
    assert first.final_state == second.final_state == {"t": "x"}
    assert len(programs.calls) == 1


def test_a_document_from_no_directory_starts_no_program(programs: Programs) -> None:
    programs.set("codex", gives="x")
    node = {"id": "a", "kind": "cli-agent", "provider": "codex", "prompt": "hi"}
    document = {"name": "x", "version": "0.1.0", "state": {"schema": {}}, "graph": {"nodes": [node]}}

    async def ran() -> None:
        async with App() as app:
            await app.run(document)

    with pytest.raises(InvalidFlow, match="starts a program, but this definition does not come from a directory"):
        asyncio.run(ran())
    assert programs.calls == []


@pytest.mark.parametrize(
    ("more", "path", "said"),
    [
        ("workdir: ../x", "workdir", "'..' is not allowed"),
        ("workdir: ./none", "workdir", "there is no directory none"),
        ("writes: [t, u]", "writes", "with a schema it writes several"),
        ("tools: [x]", "tools", "a cli-agent node has no tools"),
        ("timeout_ms: 0", "timeout_ms", "1 or more"),
    ],
)
def test_what_is_wrong_with_a_node(make: Make, more: str, path: str, said: str) -> None:
    home = one(make, "codex", more, "{t: {type: string}, u: {type: string}}")
    with pytest.raises(InvalidFlow) as refused:
        run(home)
    assert said in {problem.path: str(problem) for problem in refused.value.problems}[f"graph.nodes[0].{path}"]


def test_an_unknown_provider_has_a_suggestion(make: Make) -> None:
    with pytest.raises(InvalidFlow, match="did you mean claude-code"):
        run(one(make, "claude_cod"))
