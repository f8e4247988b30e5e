"""A project that says in its configuration which model it asks: from the command line, in every kind of definition."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fork_server
from n8n.script import CONFIGURED, FOUND, TASK, WORDS, say
from patience import wait_until
from ropewalk import App
from ropewalk.agents import Phase, run_phases
from ropewalk.app.executing import executing
from ropewalk.app.project_versions import ProjectVersions
from ropewalk.errors import ConfigError
from ropewalk.n8n.builder import WorkflowBuilder
from ropewalk.n8n.node_tools import ENVIRONMENT, SERVER
from tiers import sampled
from tools.mcp_lab import node_script

from .makers import MAKERS, Maker
from .stand_in import Call, StandIn, Turn

COMMAND = str(Path(sys.executable).with_name("ropewalk"))
TOOLS = """
import os, time
from pathlib import Path
from ropewalk import tool

@tool
def add(a: int) -> int:
    "Add one."
    with Path("calls").open("a") as file:
        file.write(f"{a}\\n")
    while a == 2 and not Path("go").exists():
        time.sleep(0.01)
    return a + 1
"""
AGENT = "kind: agent\nname: sum\nprompt: go\ntools: [add]\n"
EXPERIENCE = """
kind: experience
name: two
version: 0.1.0
state: {schema: {a: {type: string}, b: {type: string}}}
graph:
  nodes:
    - {id: a, kind: agent, prompt: A, writes: [a]}
    - {id: b, kind: agent, prompt: "B ${$state.a}", writes: [b], model: named}
  edges: [{from: a, to: b}]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STAND_IN_KEY", "no-key")
    files = {"tools.py": TOOLS, "sum.yaml": AGENT, "two.yaml": EXPERIENCE}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def configure(project: Path, maker: Maker, url: str, more: str = "") -> None:
    table = f'model = "{maker.model}"\nbase_url = "{url}{maker.path}"\nkey = "STAND_IN_KEY"\n'
    text = f'[tools]\nmodules = ["tools"]\n[model]\n{table}[model.named]\n{table}max_tokens = 321\n{more}'
    (project / "ropewalk.toml").write_text(text)


def run(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "STAND_IN_KEY": "no-key"}
    return fork_server.run([COMMAND, *words], cwd=project, env=env, capture_output=True, text=True, timeout=300)


@pytest.mark.process
@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.name)
def test_a_run_killed_within_a_turn_asks_nothing_again(maker: Maker, project: Path) -> None:
    """And `chat` asks the same model."""
    turns = Turn(calls=(Call("add", {"a": 1}),)), Turn(calls=(Call("add", {"a": 2}),)), Turn(text="4")
    with StandIn(maker.create(), *turns) as stand:
        configure(project, maker, stand.url)
        first = fork_server.Popen([COMMAND, "run", "sum.yaml", "--id", "r"], cwd=project, stdout=subprocess.DEVNULL)
        wait_until(lambda: (project / "calls").exists() and (project / "calls").read_text() == "1\n2\n")
        first.kill()
        first.wait()
        (project / "go").touch()
        done = run(project, "resume", "r", "--json")
        assert (done.returncode, json.loads(done.stdout)["result"]) == (0, "4"), done.stderr
        assert (project / "calls").read_text() == "1\n2\n2\n"  # the call in progress is made again, the first is not
        assert stand.answered == 3
        stand.script(Turn(text="hello"))
        said = run(project, "chat", "hi", "--json")
        assert json.loads(said.stdout)["text"] == "hello", said.stderr
        assert stand.invalid == []


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.name)
def test_experiences_and_phases_ask_it(maker: Maker, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(stand: StandIn) -> None:
        async with App.open(project, store="memory") as app:
            done = await app.run("two.yaml")
            assert (done.status, done.result) == ("completed", {"a": "first", "b": "second"})
            stand.script(Turn(text="found"), Turn(text="written"))
            phases = [Phase(name="find", prompt="find"), Phase(name="write", prompt="${$input.results.find}")]
            results = await run_phases(phases, app=app)
            assert [result.completion.text for result in results.values()] == ["found", "written"]

    with StandIn(maker.create(), Turn(text="first"), Turn(text="second")) as stand:
        configure(project, maker, stand.url)
        monkeypatch.chdir(project)
        asyncio.run(play(stand))
        assert stand.invalid == []


@pytest.mark.node
@pytest.mark.parametrize("maker", sampled("models", MAKERS, 2), ids=lambda maker: maker.name)
def test_the_n8n_builder_asks_it(maker: Maker, project: Path) -> None:
    script = node_script("n8n-mcp", "", "dist/mcp/stdio-wrapper.js")

    async def play() -> None:
        async with App.open(project, store="memory") as app:
            app.toolbox.add_mcp(SERVER, {"command": "node", "args": [script], "env": dict(ENVIRONMENT)})
            done = await WorkflowBuilder(app, tools=False).build(TASK)
            assert (done.valid, done.documentation) == (True, WORDS)

    with StandIn(maker.create(), *(Turn(text=text) for text in (say(FOUND), say(CONFIGURED), WORDS))) as stand:
        configure(project, maker, stand.url)
        asyncio.run(play())
        assert stand.invalid == []


@pytest.mark.process
def test_serve_asks_it_after_a_restart(project: Path) -> None:
    maker = MAKERS[1]
    with StandIn(maker.create(), Turn(text="done")) as stand:
        configure(project, maker, stand.url)
        for _ in range(2):
            with served(project) as address:
                import httpx2

                body = {"definition": {"kind": "file", "id": "two.yaml"}, "wait": 30}
                answer = httpx2.post(
                    f"{address}/api/runs", json=body, headers={"Authorization": "Bearer t"}, timeout=60
                )
                assert answer.json()["status"] == "completed", answer.text
        assert len(stand.bodies) == 4


def test_a_worker_asks_it_after_a_restart(project: Path) -> None:
    maker = MAKERS[2]

    async def submit() -> str:
        async with App.open(project, store=project / "x.db") as app:
            return await app.submit("two.yaml")

    async def work(id: str) -> str:
        async with App.open(project, store=project / "x.db") as app, executing(ProjectVersions(app)):
            return (await app.wait(id)).status

    with StandIn(maker.create(), Turn(text="first"), Turn(text="second")) as stand:
        configure(project, maker, stand.url)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(project)
            assert asyncio.run(work(asyncio.run(submit()))) == "completed"
        assert [body["model"] for body in stand.bodies] == ["gpt-5", "gpt-5"]


class served:
    """`ropewalk serve` in a project."""

    def __init__(self, project: Path) -> None:
        env = {**os.environ, "ROPEWALK_TOKEN": "t"}
        words = [COMMAND, "serve", "--port", "0"]
        self.process = fork_server.Popen(words, cwd=project, env=env, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> str:
        assert self.process.stdout is not None
        return str(self.process.stdout.readline()).partition("/?token=")[0]

    def __exit__(self, *rest: object) -> None:
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


# --- configuration --------------------------------------------------------------------------------


def opened(project: Path, text: str) -> App:
    (project / "ropewalk.toml").write_text(text)
    return App.open(project, store="memory")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[model]\nmodle = "x"\n', "[model] unknown key 'modle'; did you mean model?"),
        ('[model.cheap]\ntimeout = "x"\n', "[model.cheap] timeout: must be a "),
        ('[model]\nmodel = ""\n', "[model] model: must be text"),
        ('[model]\nfallback = "x"\n', "[model] fallback: must be a list of texts"),
    ],
)
def test_a_wrong_key_is_named_with_its_place(project: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        opened(project, text)
    assert message in str(raised.value)
    assert raised.value.problems[0].place is not None


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("openai:gpt-5", "there is no key for openai:gpt-5; set OPENAI_API_KEY"),
        ("openai-chat:gpt-5", "there is no key for openai-chat:gpt-5; set OPENAI_API_KEY"),
        ("google:gemini-2.5-flash", "there is no key for google:gemini-2.5-flash; set GOOGLE_API_KEY"),
        ("groq:x", "there is no key for groq:x; set GROQ_API_KEY"),
        ("anthropic:claude-sonnet-5-5", "there is no key for the Messages API; set ANTHROPIC_API_KEY"),
        ("claude-sonnet-5-5", "there is no key for the Messages API; set ANTHROPIC_API_KEY"),
        ("own", "there is no key for openai:gpt-5; set OWN_KEY"),
        ("no_such_module:Model", "cannot use the model no_such_module:Model: No module named 'no_such_module'"),
    ],
)
def test_without_a_key_the_variable_is_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, model: str, message: str
) -> None:
    for name in ("OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    app = opened(project, '[model.own]\nmodel = "openai:gpt-5"\nkey = "OWN_KEY"\n')
    document = {"kind": "agent", "prompt": "go", "model": model}
    assert app.jobs.why_model_unavailable(model) == message
    assert [warning.message for warning in app.check(document).warnings] == [message]


def test_a_class_of_the_project_is_a_model(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
from ropewalk.agents import Answer

class Echo:
    async def turn(self, request, on_piece, /):
        return Answer(content=[{"type": "text", "text": request.messages[-1]["content"]}], stop_reason="end_turn")

    async def close(self):
        pass
"""
    (project / "echoes.py").write_text(text)
    monkeypatch.syspath_prepend(str(project))

    async def play() -> None:
        async with opened(project, '[model]\nmodel = "echoes:Echo"\n') as app:
            assert (await app.run({"kind": "agent", "prompt": "hello"})).result == "hello"

    asyncio.run(play())


def test_a_fallback_is_asked_and_told(project: Path) -> None:
    chat, gemini = MAKERS[1], MAKERS[3]

    async def play(busy: StandIn, free: StandIn, *turns: Turn) -> list[str]:
        busy.script(*turns)
        more = f'fallback = ["other"]\n[model.other]\nmodel = "{gemini.model}"\nbase_url = "{free.url}"\nkey = "STAND_IN_KEY"\n'
        table = f'[model]\nmodel = "{chat.model}"\nbase_url = "{busy.url}/v1"\nkey = "STAND_IN_KEY"\nmax_retries = 0\n'
        async with opened(project, table + more) as app:
            done = await app.run({"kind": "agent", "prompt": "hello"})
            assert (done.status, done.result) == ("completed", "free")
            totals = done["conversation"]["totals"]
            return [*totals["notes"], totals["model"]]

    with StandIn(chat.create(), Turn()) as busy, StandIn(gemini.create(), Turn(text="free")) as free:
        asked = asyncio.run(play(busy, free, Turn(status=503)))
        assert asked == ["openai-chat:gpt-4o refused: 503: try later; other was asked", "gemini-2.5-flash"]
        refused = asyncio.run(play(busy, free, Turn(refusal="no")))
        assert refused == ["openai-chat:gpt-4o refused; other was asked", "gemini-2.5-flash"]


@pytest.mark.parametrize(
    ("kind", "data", "excerpt"),
    [
        ("application/json", b'{"detail": "wrong door"}', "wrong door"),
        ("text/html", b"<html><title>Sign in</title></html>", "Sign in"),
    ],
)
@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.name)
def test_an_answer_of_another_program_is_shown(
    maker: Maker, project: Path, kind: str, data: bytes, excerpt: str
) -> None:
    async def play(stand: StandIn) -> None:
        configure(project, maker, stand.url)
        async with App.open(project, store="memory") as app:
            done = await app.run({"kind": "agent", "prompt": "go"})
            assert done.status == "failed"
            assert excerpt in str(done.error), done.error

    with StandIn(maker.create(), Turn(raw=(kind, data))) as stand:
        asyncio.run(play(stand))


def test_importing_ropewalk_imports_none_of_it() -> None:
    code = "import sys, ropewalk, ropewalk.agents; print([m for m in ('pydantic_ai', 'openai', 'anthropic', 'google.genai') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
