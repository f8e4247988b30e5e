"""Keys and passwords of models, and what messages say of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from patience import until
from ropewalk import App
from ropewalk.agents import silence
from ropewalk.agents.model import Request
from ropewalk.agents.model_facts import model_facts
from ropewalk.agents.models import create_models
from ropewalk.config.models import ModelSettings
from ropewalk.config.secrets import process_redaction
from ropewalk.errors import ModelError
from ropewalk.testing import ScriptedModel

from .makers import MAKERS, Maker
from .stand_in import StandIn, Turn

pytestmark = pytest.mark.process


def test_a_key_is_masked_whatever_its_variable_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_LLM", "plain-words-of-ours")
    create_models({"": ModelSettings(model="openai:gpt-5", key="OUR_LLM")}).client_of("")
    assert process_redaction().text("wrong key: plain-words-of-ours") == "wrong key: ***"


def test_the_password_of_an_address_is_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_LLM", "no-key")
    address = "http://user:open-sesame@127.0.0.1:9"
    settings = ModelSettings(model="claude-sonnet-5-5", base_url=address, key="OUR_LLM", max_retries=0)

    async def play() -> None:
        async with App("memory", model=create_models({"": settings})) as app:
            done = await app.run({"kind": "agent", "prompt": "go"})
        assert "http://user:***@127.0.0.1:9" in str(done.error)

    asyncio.run(play())
    assert [fact["baseUrl"] for fact in model_facts({"": settings}, {})] == ["http://user:***@127.0.0.1:9"]


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.name)
def test_a_refused_key_is_named_by_its_variable(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_KEY", "no-key")

    async def play(stand: StandIn) -> None:
        async with App("memory", model=create_models({"": maker.settings(stand.url)})) as app:
            done = await app.run({"kind": "agent", "prompt": "go"})
        assert "; is STAND_IN_KEY right?" in str(done.error)

    with StandIn(maker.create(), Turn(status=401)) as stand:
        asyncio.run(play(stand))


@pytest.mark.parametrize(
    ("model", "turn", "message"),
    [
        ("openai-chat:x", Turn(status=401), "; no key was sent; set OPENAI_API_KEY, or name the variable of the key"),
        ("vllm:x", Turn(status=401), "; no key was sent; name the variable of the key as key in ropewalk.toml"),
        ("openai-chat:x", Turn(status=500), "openai-chat:x at {url}/ refused: 500: "),
        ("openai-chat:x", None, "at {url}/: nothing listens at this address (connection refused); base_url in"),
    ],
)
def test_a_server_that_cannot_be_used_is_named(
    model: str, turn: Turn | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    async def play(url: str) -> None:
        settings = ModelSettings(model=model, base_url=url, max_retries=0)
        async with App("memory", model=create_models({"": settings})) as app:
            done = await app.run({"kind": "agent", "prompt": "go"})
        assert message.format(url=url) in str(done.error)

    with StandIn(MAKERS[1].create(), turn or Turn()) as stand:
        url = f"{stand.url}/v1"
        if turn is not None:
            asyncio.run(play(url))
    if turn is None:  # nobody listens there any more
        asyncio.run(play(url))


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.name)
def test_an_unknown_model_or_address_is_named(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_KEY", "no-key")

    async def play(stand: StandIn) -> None:
        settings = maker.settings(stand.url.replace("//", "//user:open-sesame@"))
        async with App("memory", model=create_models({"": settings})) as app:
            done = await app.run({"kind": "agent", "prompt": "go"})
        address, _, rest = str(done.error).partition("; does ")[2].partition(" ")
        assert address.rstrip("/") == f"{stand.url.replace('//', '//user:***@')}{maker.path}", done.error
        assert "base_url" in str(done.error)
        assert f"have the model {settings.name}?" in rest

    with StandIn(maker.create(), Turn(status=404)) as stand:
        asyncio.run(play(stand))


def test_the_package_of_a_provider_is_looked_for_before_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from ropewalk.config import providers

    monkeypatch.setenv("OUR_LLM", "no-key")
    monkeypatch.setitem(providers.PACKAGES, "groq", ("no_such_module", "groq"))
    facts = model_facts({name: ModelSettings(model=f"{name}:x", key="OUR_LLM") for name in ("groq", "deepseek")}, {})
    missing = {fact["name"]: fact["missing"] for fact in facts}
    assert (missing["groq"], missing["deepseek"]) == (
        "groq:x needs a package: pip install 'pydantic-ai-slim[groq]'",
        None,
    )


def test_azure_has_the_address_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_KEY", "no-key")
    monkeypatch.setenv("OPENAI_API_VERSION", "2026-01-01")

    async def play(stand: StandIn) -> None:
        settings = ModelSettings(model="azure:GPT4o", base_url=stand.url, key="STAND_IN_KEY")
        async with App("memory", model=create_models({"": settings})) as app:
            done = await app.run({"kind": "agent", "prompt": "go"})
        assert done.result == "hi", done.error

    with StandIn(MAKERS[1].create(), Turn(text="hi")) as stand:
        asyncio.run(play(stand))


SERVERS = ("unknown host", "refused port", "closed connection", "no scheme")


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.name)
def test_each_cause_of_a_failed_connection_is_named_with_the_address(
    maker: Maker, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_KEY", "no-key")

    async def play() -> None:
        closing = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        port = closing.sockets[0].getsockname()[1]
        url, cause = {
            "unknown host": ("http://no-such-host.invalid", "the name of the host cannot be resolved ("),
            "refused port": ("http://127.0.0.1:1", "nothing listens at this address (connection refused)"),
            "closed connection": (f"http://127.0.0.1:{port}", "the server closed the connection without an answer"),
            "no scheme": (f"127.0.0.1:{port}", "the address does not begin with http:// or https://"),
        }[server]
        settings = maker.settings(url, max_retries=0)
        async with closing, App("memory", model=create_models({"": settings})) as app:
            done = await app.run({"kind": "agent", "prompt": "go"})
        assert isinstance(done.error, dict)
        message = str(done.error["message"])
        assert cause in message
        assert f" at {url}" in message
        assert message.endswith("; base_url in ropewalk.toml sets the address")

    asyncio.run(play())


@pytest.mark.parametrize(
    ("kind", "needs"),
    [
        ("invalid_request_error", "restart"),
        ("request_too_large", "restart"),
        ("authentication_error", "correction"),
        ("not_found_error", "correction"),
        ("rate_limit_error", ""),
        ("overloaded_error", ""),
    ],
)
@pytest.mark.parametrize("maker", MAKERS[:2], ids=lambda maker: maker.name)
def test_an_error_inside_a_stream_needs_what_its_status_would(
    maker: Maker, kind: str, needs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_KEY", "no-key")
    event = {"type": "error", "error": {"type": kind, "message": "a fault", "code": None}}
    text = (
        f"event: error\ndata: {json.dumps(event)}\n\n" if maker.name == "messages" else f"data: {json.dumps(event)}\n\n"
    )

    async def play(stand: StandIn) -> None:
        models = create_models({"": maker.settings(stand.url, max_retries=0)})
        with pytest.raises(ModelError, match="a fault") as raised:
            await models.turn(Request(messages=[{"role": "user", "content": "go"}]), lambda *_: None)
        await models.close()
        assert raised.value.needs == needs

    with StandIn(maker.create(), Turn(raw=("text/event-stream", text.encode()))) as stand:
        asyncio.run(play(stand))


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.name)
def test_a_refusal_of_the_account_needs_a_correction(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_KEY", "no-key")
    wire = maker.create()
    monkeypatch.setattr(wire, "judge", lambda path, body: ["Your credit balance is too low to access the API."])

    async def play(stand: StandIn) -> None:
        models = create_models({"": maker.settings(stand.url, max_retries=0)})
        with pytest.raises(ModelError, match="credit balance") as raised:
            await models.turn(Request(messages=[{"role": "user", "content": "go"}]), lambda *_: None)
        await models.close()
        assert (raised.value.status, raised.value.needs) == (400, "correction")

    with StandIn(wire, Turn()) as stand:
        asyncio.run(play(stand))


def test_an_address_in_a_variable_is_checked_before_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "no-key")
    for model, variable in (("claude-sonnet-5-5", "ANTHROPIC_BASE_URL"), ("ollama:llama", "OLLAMA_BASE_URL")):
        monkeypatch.setenv(variable, "localhost:11434")
        [fact] = model_facts({"": ModelSettings(model=model)}, {})
        assert fact["missing"] == f"{variable}: must be an address that begins with http:// or https://"


def test_a_request_that_waits_is_reported_with_its_limit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("STAND_IN_KEY", "no-key")
    monkeypatch.setattr(silence, "FIRST_NOTICE", 0.01)

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await until(lambda: "waiting for" in caplog.text)
        writer.close()

    async def play(maker: Maker) -> None:
        server = await asyncio.start_server(hang, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        models = create_models({"": maker.settings(url, max_retries=0, timeout=321)})
        with pytest.raises(ModelError):
            await models.turn(Request(messages=[{"role": "user", "content": "go"}]), lambda *_: None)
        await models.close()
        server.close()
        assert f" at {url}" in caplog.text
        assert "one request may take 321 s (timeout under [model] in ropewalk.toml)" in caplog.text

    for maker in MAKERS[:2]:
        caplog.clear()
        asyncio.run(play(maker))


def test_a_fallback_without_a_key_and_an_unknown_price_are_warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_KEY", "no-key")
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    model = 'model = "openai-chat:ours"\nkey = "STAND_IN_KEY"\nfallback = ["groq:x"]\n'
    (tmp_path / "ropewalk.toml").write_text(f"[model]\n{model}")
    (tmp_path / "a.yaml").write_text("kind: agent\nprompt: go\ncost_budget: 1\n")

    async def play() -> None:
        async with App.open(tmp_path, store="memory") as app:
            price, fallback = (await app.validate(tmp_path / "a.yaml")).warnings
            assert price.place is not None
            assert (price.place.line, price.message) == (
                3,
                "the price of openai-chat:ours is not known; set token_budget instead",
            )
            assert "the fallback groq:x cannot be asked: there is no key for groq:x; set" in fallback.message
            with pytest.raises(ModelError, match="the price of openai-chat:ours is not known"):
                await app.run(tmp_path / "a.yaml")

    asyncio.run(play())


@pytest.mark.parametrize(("needs", "is_offered"), [("restart", False), ("correction", True)])
def test_a_retry_that_fails_in_the_same_way_is_not_offered(tmp_path: Path, needs: str, is_offered: bool) -> None:
    model = ScriptedModel(ModelError("no", needs=needs))

    async def play() -> None:
        async with App(tmp_path / "runs.db", model=model) as app:
            done = await app.run({"kind": "agent", "prompt": "go"}, run_id="r")
            assert done.status == "failed"
            assert ("retry" in app.runs.actions("r")) is is_offered

    asyncio.run(play())
