"""Keys and passwords of models, and what messages say of them."""

from __future__ import annotations

import asyncio

import pytest

from ropewalk import App
from ropewalk.agents.model_facts import model_facts
from ropewalk.agents.models import create_models
from ropewalk.config.models import ModelSettings
from ropewalk.config.secrets import process_redaction

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
        ("openai-chat:x", None, "at {url}/: Connection error; is it running? base_url in ropewalk.toml sets the addr"),
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
