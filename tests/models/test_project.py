"""A project that says in its configuration which model it asks: from the command line, in every kind of definition."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import fork_server
from n8n.script import CONFIGURED, FOUND, TASK, WORDS, say
from patience import wait_until
from ropewalk import App
from ropewalk.agents import Phase, run_phases
from ropewalk.agents.model import Answer, OnPiece, Request
from ropewalk.agents.models import create_models
from ropewalk.app.executing import executing
from ropewalk.app.project_versions import ProjectVersions
from ropewalk.config.model_options import SHARED
from ropewalk.config.models import ModelSettings
from ropewalk.config.providers import KEY_VARIABLES, PROVIDERS, provider_error
from ropewalk.doors.cli.models import require_model
from ropewalk.errors import ConfigError, ModelError
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


KNOWN = "anthropic, openai, google, azure, deepseek, groq, mistral, openrouter, ollama and others, and your own classes as module:Class"


@pytest.fixture
def _no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "ANTHROPIC_BASE_URL",
        "OLLAMA_BASE_URL",
        *(name for names in KEY_VARIABLES.values() for name in names),
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))  # where the SDK of Anthropic finds profiles


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
        (
            '[model]\nmodel = "opnai:gpt-5"\n',
            "[model] model: there is no provider 'opnai'; did you mean openai:gpt-5? Known are anthropic, openai,",
        ),
        (
            '[model.a]\nmodel = "nobody:x"\n',
            "[model.a] model: there is no provider 'nobody'; known are anthropic, openai, google,",
        ),
        (
            '[model]\nfallback = ["chaep"]\n[model.cheap]\n',
            "[model] fallback: there is no model 'chaep'; did you mean 'cheap'?",
        ),
        ('[model]\nfallback = ["grok:x"]\n', "[model] fallback: there is no provider 'grok'; did you mean groq:x?"),
        ('[model]\nbase_url = "localhost:80/v1"\n', "[model] base_url: must be an address that begins with http://"),
        ('[model.a]\nbase_url = "http://h:99999"\n', "[model.a] base_url: must be an address that begins with http://"),
        (
            '[model]\nmodel = "openai-chat:m"\noptions = { temprature = 0.1 }\n',
            "[model.options] temprature: there is no such option; did you mean temperature?",
        ),
        (
            '[model]\nmodel = "openai:m"\n[model.options]\nopenai_reasoning_efort = "low"\n',
            "[model.options] openai_reasoning_efort: there is no such option; did you mean openai_reasoning_effort?",
        ),
        (
            '[model]\nmodel = "claude-sonnet-5-5"\noptions = { temprature = 0.1 }\n',
            "[model.options] temprature: there is no such option; did you mean temperature?",
        ),
        (
            '[model]\nmodel = "google:m"\noptions = { top_q = 1, foo = 1 }\n',
            "[model.options] foo: there is no such option; extra sends a field of the API unchanged",
        ),
        ('[model]\nmodel = "google:m"\noptions = { temperature = "hot" }\n', "temperature: must be a number"),
        ('[model]\nkey = "sk-proj-abc1"\n', "[model] key: must be the name of an environment variable"),
        (
            '[model]\nkey = "AIzaSyA-0123456789abcdefghijklmnopqrstu"\n',
            "[model] key: must be the name of an environment variable",
        ),
        (
            '[model.a]\nkey = "gsk_0123456789abcdefghijklmnopqrstuvwxyz"\n',
            "[model.a] key: must be the name of an environment variable",
        ),
    ],
)
def test_a_wrong_key_is_named_with_its_place(project: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        opened(project, text)
    assert message in str(raised.value)
    place = raised.value.problems[0].place
    assert place is not None
    assert ("key: must" in message) == (place.text == "")  # no message shows what may be a key


def test_every_shared_option_of_pydantic_ai_is_known() -> None:
    from pydantic_ai.settings import ModelSettings as SharedSettings

    assert SHARED.keys() == SharedSettings.__annotations__.keys()


@pytest.mark.usefixtures("_no_keys")
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
        ("ours", "there is no key for anthropic:claude-haiku-5-5; set OWN_KEY"),
        (
            "ollama:qwen3",
            'there is no address for ollama:qwen3; set OLLAMA_BASE_URL, or base_url in ropewalk.toml, to "http://localhost:11434/v1"',
        ),
        ("onw", "there is no model 'onw'; did you mean 'own'?"),
        ("gpt-5", "there is no model 'gpt-5'; a name without a provider means Anthropic; did you mean openai:gpt-5?"),
        ("gpt-4", "there is no model 'gpt-4'; did you mean openai:gpt-4?"),
        ("smart", "there is no model 'smart'; write it as provider:model, or define it in ropewalk.toml"),
        ("opnai:gpt-5", f"there is no provider 'opnai'; did you mean openai:gpt-5? Known are {KNOWN}"),
        ("echoes:echo", f"there is no provider 'echoes'; known are {KNOWN}"),
        ("no_such_module:Model", "cannot use the model no_such_module:Model: No module named 'no_such_module'"),
    ],
)
def test_without_a_key_the_variable_is_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, model: str, message: str
) -> None:
    own = '[model.own]\nmodel = "openai:gpt-5"\nkey = "OWN_KEY"\n'
    app = opened(project, f'{own}[model.ours]\nmodel = "anthropic:claude-haiku-5-5"\nkey = "OWN_KEY"\n')
    document = {"kind": "agent", "prompt": "go", "model": model}
    assert app.jobs.why_model_unavailable(model) == message
    assert [warning.message for warning in app.check(document).warnings] == [message]


@pytest.mark.usefixtures("_no_keys")
def test_a_model_without_a_provider_and_a_key_is_a_forgotten_provider(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = (
        'model "{0}" has no provider, so Ropewalk uses the Messages API of Anthropic, and there is no key for it; '
        'set ANTHROPIC_API_KEY, or write the provider, as in "{1}"'
    )
    app = opened(project, '[model]\n# ours\nmodel = "stand-in"\n[model.own]\nmodel = "gemini-2.5-flash"\nkey = "OWN"\n')
    assert app.jobs.why_model_unavailable("") == f"ropewalk.toml:3: {why.format('stand-in', 'openai:stand-in')}"
    at_own = f"ropewalk.toml:5: {why.format('gemini-2.5-flash', 'google:gemini-2.5-flash')}"
    assert app.jobs.why_model_unavailable("own") == at_own.replace("ANTHROPIC_API_KEY", "OWN")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    assert app.jobs.why_model_unavailable("local") == why.format("local", "openai:local")


def test_a_model_that_a_document_names_is_wrong_at_its_line(project: Path) -> None:
    (project / "one.yaml").write_text("kind: agent\nname: one\nprompt: go\nmodel: chaep\n")
    app = opened(project, '[model.cheap]\nmodel = "openai:gpt-5"\n')
    [warning] = app.check(project / "one.yaml").warnings
    assert (warning.path, warning.message) == ("model", "there is no model 'chaep'; did you mean 'cheap'?")
    assert warning.place is not None
    assert (warning.place.line, warning.place.column) == (4, 8)
    with pytest.raises(ModelError) as refused:
        asyncio.run(app.run(project / "one.yaml"))
    assert refused.value.problems == (warning,)


def test_a_model_without_its_provider_is_none_of_anthropic() -> None:
    models = create_models({"": ModelSettings(model="openai-chat:ours", base_url="http://127.0.0.1:9/v1")})
    with pytest.raises(ModelError, match=r"means Anthropic; did you mean openai-chat:ours\?$"):
        models.client_of("ours")


@pytest.mark.usefixtures("_no_keys")
@pytest.mark.parametrize(
    ("keys", "shown", "is_absent"),
    [
        ((), ["set ANTHROPIC_API_KEY", "openai:gpt-5"], "is set"),
        (("OPENAI_API_KEY",), ["OPENAI_API_KEY is set", 'model = "openai:gpt-5"'], "ANTHROPIC_API_KEY"),
        (("GEMINI_API_KEY",), ["GEMINI_API_KEY is set", 'model = "google:gemini-2.5-flash"'], "OPENAI_API_KEY"),
    ],
)
def test_without_any_model_the_lines_to_write_are_shown(
    project: Path, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...], shown: list[str], is_absent: str
) -> None:
    for key in keys:
        monkeypatch.setenv(key, "no-key")
    app = opened(project, "")
    messages = [app.check({"kind": "agent", "prompt": "go"}).warnings[0].message]
    for is_terminal in (False, True):
        for stream in (sys.stdin, sys.stderr):
            monkeypatch.setattr(stream, "isatty", lambda answer=is_terminal: answer, raising=False)
        with pytest.raises(ModelError) as raised:
            asyncio.run(require_model(app))
        messages.append(str(raised.value))
    for message in messages:
        assert [text for text in shown if text not in message] == []
        assert is_absent not in message
    assert ["--model" in message for message in messages] == [False, True, True]
    assert ["\n\n[model]\nmodel = " in message for message in messages] == [False, False, True]
    asyncio.run(require_model(opened(project, '[model]\nmodel = "vllm:x"\nbase_url = "http://127.0.0.1:1/v1"\n')))


def test_the_providers_are_those_of_pydantic_ai() -> None:
    """Its source is read, because to ask it for each one would import the packages of all makers."""
    from pydantic_ai.providers import infer_provider_class

    assert set(re.findall("'([a-z-]+)'", inspect.getsource(infer_provider_class))) == set(PROVIDERS)
    assert provider_error("system-two:x") is not None


def test_a_span_names_the_provider_that_answered(project: Path) -> None:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from ropewalk.telemetry import instrument

    async def play(maker: Maker) -> tuple[str, str]:
        exporter, tracers = InMemorySpanExporter(), TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(exporter))
        with StandIn(maker.create(), Turn(text="hi")) as stand:
            configure(project, maker, stand.url)
            async with App.open(project, store="memory") as app:
                instrument(app, tracers=tracers, meters=MeterProvider())
                await app.run({"kind": "agent", "prompt": "go"})
        [chat] = [span for span in exporter.get_finished_spans() if span.name.startswith("chat")]
        return chat.name, str((chat.attributes or {})["gen_ai.provider.name"])

    assert [asyncio.run(play(maker)) for maker in MAKERS] == [
        ("chat claude-sonnet-5-5", "anthropic"),
        ("chat gpt-4o", "openai"),
        ("chat gpt-5", "openai"),
        ("chat gemini-2.5-flash", "gcp.gemini"),
    ]


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
        first = f"openai-chat:gpt-4o at {busy.url}/v1/ refused: 503: try later; other was asked"
        assert asked == [first, "gemini-2.5-flash"]
        refused = asyncio.run(play(busy, free, Turn(refusal="no")))
        assert refused == ["openai-chat:gpt-4o refused; other was asked", "gemini-2.5-flash"]


def test_the_error_of_the_last_fallback_names_those_before_it() -> None:
    models = {name: ModelSettings(model=f"{__name__}:Busy", extra={"name": name}) for name in ("", "second")}
    models[""] = replace(models[""], fallback=("second",))

    async def play() -> None:
        with pytest.raises(ModelError) as caught:
            await create_models(models).turn(Request(messages=[]), lambda kind, piece: None)
        assert str(caught.value) == " is busy; second was asked: second is busy"
        assert caught.value.status == 503

    asyncio.run(play())


class Busy:
    """A model that is always overloaded."""

    async def turn(self, request: Request, on_piece: OnPiece, /) -> Answer:
        raise ModelError(f"{request.options['extra']['name']} is busy", status=503)


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
