"""Images and documents at URLs: the API gets the URL if it takes one, or else the file, from an address that is allowed."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pydantic_ai.models
import pytest
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.google_cloud import GoogleCloudProvider

from ropewalk import App
from ropewalk.agents import Completion, complete_with_tools
from ropewalk.agents.content_blocks import block_digest
from ropewalk.agents.downloads import Downloads
from ropewalk.agents.model import Request
from ropewalk.agents.provider_client import _takes_url
from ropewalk.config.network import AddressPolicy
from ropewalk.errors import ModelError

from .makers import MAKERS, Maker
from .stand_in import StandIn, Turn

pytestmark = pytest.mark.process

PIXEL, PDF = b"\x89PNG\r\n\x1a\n" + bytes(20), b"%PDF-1.7 hello"
FILES: dict[str, tuple[int, str | None, bytes]] = {
    "/a.png": (200, "image/png", PIXEL),
    "/unnamed.png": (200, None, PIXEL),
    "/a.pdf": (200, "application/pdf", PDF),
    "/a.txt": (200, "text/plain; charset=iso-8859-1", "caf\u00e9".encode("latin-1")),
    "/drawing.svg": (200, "image/svg+xml", b"<svg/>"),
    "/empty.png": (200, "image/png", b""),
    "/login.png": (200, "text/html", b"<html>"),
    "/large.png": (200, "image/png", PIXEL + bytes(4_000_000)),
    "/blank.txt": (200, "text/plain", b" "),
    "/named.gif": (200, "image/gif", PIXEL),
    "/moved.pdf": (302, "text/plain", b""),
}
CHAT, RESPONSES, GEMINI = MAKERS[1:]


class Host:
    """A server with files, and the paths that were requested."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.url, self.asked = f"http://127.0.0.1:{server.server_port}", list[str]()


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host.asked.append(self.path)
            status, kind, data = FILES.get(self.path, (404, "text/plain", b"no such file"))
            self.send_response(status)
            for name, value in {"content-type": kind, "location": "/a.pdf" if status == 302 else None}.items():
                if value is not None:
                    self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    host = Host(server)
    yield host
    server.shutdown()
    server.server_close()


def ask(maker: Maker, folder: Path, blocks: list[dict[str, Any]], allow: list[str]) -> tuple[Completion, list[Any]]:
    """Ask about files in a project that allows these hosts, and return the answer and the requests."""
    return converse(maker, folder, [{"role": "user", "content": [{"type": "text", "text": "what?"}, *blocks]}], allow)


def converse(
    maker: Maker, folder: Path, messages: list[dict[str, Any]], allow: list[str]
) -> tuple[Completion, list[Any]]:
    """Continue a conversation in a project that allows these hosts, and return the answer and the requests."""

    async def play(stand: StandIn) -> Completion:
        settings = maker.settings(stand.url)
        model = f'model = "{settings.model}"\nbase_url = "{settings.base_url}"\nkey = "STAND_IN_KEY"\n'
        (folder / "ropewalk.toml").write_text(f"[model]\n{model}[network]\nallow = {json.dumps(allow)}\n")
        async with App.open(folder, store="memory") as app:
            return await complete_with_tools(None, app=app, messages=messages)

    with StandIn(maker.create(), Turn(text="seen")) as stand:
        done = asyncio.run(play(stand))
        assert (done.text, stand.invalid) == ("seen", [])
        return done, stand.bodies


def block(kind: str, url: str) -> dict[str, Any]:
    return {"type": kind, "source": {"type": "url", "url": url}}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_KEY", "no-key")


@pytest.mark.parametrize("maker", [CHAT, RESPONSES, GEMINI], ids=lambda maker: maker.name)
def test_a_file_is_sent_as_a_url_or_downloaded_from_an_allowed_host(maker: Maker, host: Host, tmp_path: Path) -> None:
    host.asked.clear()
    names = {"/a.png": "image", "/unnamed.png": "image", "/a.pdf": "document", "/a.txt": "document"}
    done, [body] = ask(maker, tmp_path, [block(kind, host.url + name) for name, kind in names.items()], ["127.0.0.1"])
    urls = {"chat": ["/a.png", "/unnamed.png"], "responses": [*names], "gemini": []}[maker.name]
    sent = json.dumps(body, ensure_ascii=False)
    assert [name for name in names if f"{host.url}{name}" in sent] == urls
    assert host.asked == [name for name in names if name not in urls]
    inside = {name: base64.b64encode(FILES[name][2]).decode() for name in names} | {"/a.txt": "caf\u00e9"}
    assert [name for name in names if inside[name] in sent] == [name for name in names if name not in urls]
    assert done.warnings == ()


@pytest.mark.parametrize("maker", [CHAT, GEMINI], ids=lambda maker: maker.name)
def test_a_file_that_may_not_be_downloaded_is_left_out_with_the_reason(
    maker: Maker, host: Host, tmp_path: Path
) -> None:
    host.asked.clear()
    reasons = {
        "/a.pdf": "127.0.0.1 is a loopback address; addresses from documents and arguments must be public; to allow it,"
        " add it to [network] allow in ropewalk.toml",
        "/moved.pdf": "HTTP 302: redirects are not followed (/a.pdf)",
        "/none.pdf": f"HTTP 404 Not Found from GET {host.url}/none.pdf: no such file",
        "/a.png": "its type is image/png; a document must be a PDF or a text",
    }
    for name, reason in reasons.items():
        allow = [] if name == "/a.pdf" else ["127.0.0.1"]
        done, bodies = ask(maker, tmp_path, [block("document", host.url + name)], allow)
        what = "the API of this model takes no URL of this document, and Ropewalk cannot download it"
        assert f"a block was left out: {what}: {reason}" in done.warnings
        [body] = bodies
        assert "[document: it cannot be shown here]" in json.dumps(body)
    assert host.asked == ["/moved.pdf", "/none.pdf", "/a.png"]


def test_a_downloaded_file_is_checked_like_one_in_the_message(host: Host, tmp_path: Path) -> None:
    types = "not one of image/jpeg, image/png, image/gif, image/webp"
    reasons = {
        "/drawing.svg": f"its media type is image/svg+xml, {types}",
        "/empty.png": "it is empty",
        "/login.png": f"its media type is text/html, {types}",
        "/large.png": "it has 5,333,372 characters of base64; the API takes at most 5,242,880",
        "/blank.txt": "it is empty",
    }
    blocks = [block("document" if name.endswith("txt") else "image", host.url + name) for name in reasons]
    done, [body] = ask(GEMINI, tmp_path, [*blocks, block("image", f"{host.url}/named.gif")], ["127.0.0.1"])
    sent = json.dumps(body)
    what = "a block was left out: the API of this model takes no URL of this {}, and Ropewalk cannot download it: {}"
    expected = [what.format(b["type"], reason) for b, reason in zip(blocks, reasons.values(), strict=True)]
    assert [warning for warning in done.warnings if "takes no URL" in warning] == expected
    assert (sent.count("cannot be shown"), sent.count("image/png"), sent.count("image/gif")) == (5, 1, 0)


@pytest.mark.parametrize("more", [{}, {"name": "a field that is not sent"}], ids=["plain", "named"])
@pytest.mark.parametrize("is_result", [False, True], ids=["message", "result"])
def test_a_document_is_left_out_with_an_image_in_it_that_cannot_be_downloaded(
    is_result: bool, more: dict[str, str], host: Host, tmp_path: Path
) -> None:
    inside = [{"type": "text", "text": "a page"}, block("image", f"{host.url}/empty.png")]
    document: dict[str, Any] = {"type": "document", "source": {"type": "content", "content": inside}, **more}
    messages = [{"role": "user", "content": [document]}]
    if is_result:
        call = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "c1", "content": [document]}
        messages = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    done, [body] = converse(GEMINI, tmp_path, messages, ["127.0.0.1"])
    assert any(warning.endswith("cannot download it: it is empty") for warning in done.warnings)
    assert "[document: it cannot be shown here]" in json.dumps(body)


@pytest.mark.parametrize("maker", ["Mistral", "Groq", "HuggingFace", "Xai", "Cohere"])
def test_the_url_of_an_image_is_passed_on_by_makers_whose_api_fetches_it(maker: str) -> None:
    # Their packages are not installed: what counts is the name of the class, and what its source says.
    source = Path(pydantic_ai.models.__path__[0], f"{maker.lower()}.py").read_text()
    assert f"class {maker}Model(" in source
    passes_on = "def _map_image_url" in source
    model: Any = type(f"{maker}Model", (), {"system": maker.lower(), "profile": {}})()
    assert _takes_url(model, "image", "https://example.org/a.png") is passes_on is (maker != "Cohere")
    assert not _takes_url(model, "document", "https://example.org/a.pdf")


def test_google_cloud_fetches_a_url_whose_ending_tells_the_type() -> None:
    files = {"a.png": "image", "a": "image", "a.png?size=1": "image", "a.pdf": "document"}
    cloud = GoogleModel("gemini-2.5-flash", provider=GoogleCloudProvider(api_key="no-key"))
    gemini = GoogleModel("gemini-2.5-flash", provider=GoogleProvider(api_key="no-key"))
    taken = [name for name, kind in files.items() if _takes_url(cloud, kind, f"https://example.org/{name}")]
    assert taken == ["a.png", "a.pdf"]
    assert not any(_takes_url(gemini, kind, f"https://example.org/{name}") for name, kind in files.items())


def test_the_files_of_a_conversation_are_downloaded_once(host: Host, tmp_path: Path) -> None:
    host.asked.clear()

    async def play(stand: StandIn) -> None:
        model = GEMINI.settings(stand.url)
        text = f'[model]\nmodel = "{model.model}"\nbase_url = "{model.base_url}"\nkey = "STAND_IN_KEY"\n'
        (tmp_path / "ropewalk.toml").write_text(f'{text}[network]\nallow = ["127.0.0.1"]\n')
        messages: list[dict[str, Any]] = [{"role": "user", "content": [block("image", f"{host.url}/a.png")]}]
        async with App.open(tmp_path, store="memory") as app:
            for _ in range(3):
                done = await complete_with_tools(None, app=app, messages=messages)
                messages += [{"role": "assistant", "content": done.text}, {"role": "user", "content": "and?"}]

    with StandIn(GEMINI.create(), *[Turn(text="seen")] * 3) as stand:
        asyncio.run(play(stand))
        assert [json.dumps(body).count("image/png") for body in stand.bodies] == [1, 1, 1]
    assert host.asked == ["/a.png"]


@pytest.mark.parametrize(
    ("names", "options", "asked"),
    [
        (["a.png", "a.png"], {}, ["a.png"]),
        (["a.png", "a.png"], {"ttl": 0}, ["a.png", "a.png"]),
        (["a.png", "unnamed.png", "a.png"], {"max_bytes": 60}, ["a.png", "unnamed.png"]),
        (["a.png", "unnamed.png", "unnamed.png", "a.png"], {"max_bytes": 30}, ["a.png", "unnamed.png", "a.png"]),
    ],
    ids=["kept", "expired", "within the limit", "over the limit"],
)
def test_downloaded_files_stay_in_memory(names: list[str], options: Any, asked: list[str], host: Host) -> None:
    host.asked.clear()
    files = Downloads(AddressPolicy(["127.0.0.1"]), **options)

    async def play() -> None:
        for name in names:
            request = Request(messages=[{"role": "user", "content": [block("image", f"{host.url}/{name}")]}])
            await files.with_files(request, lambda kind, url: False)

    asyncio.run(play())
    assert host.asked == [f"/{name}" for name in asked]


def test_the_files_of_a_request_have_one_limit(host: Host) -> None:
    files = Downloads(AddressPolicy(["127.0.0.1"]), max_bytes=2 * len(PIXEL))
    image = block("image", f"{host.url}/a.png")
    last = block("image", f"{host.url}/unnamed.png")
    enough = Request(messages=[{"role": "user", "content": [image, image]}])
    assert "base64" in str(asyncio.run(files.with_files(enough, lambda kind, url: False)).messages)
    request = Request(messages=[{"role": "user", "content": [image, image, last]}])
    with pytest.raises(ModelError, match="the files of this request are larger than 56 bytes, the limit") as caught:
        asyncio.run(files.with_files(request, lambda kind, url: False))
    assert caught.value.part == {"block": block_digest(last)}
