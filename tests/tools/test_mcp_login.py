"""Logins at MCP servers: a real authorization server in another process, and a browser that agrees to everything."""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
import sys
import traceback
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.auth import OAuthTokenError
from mcp.shared.auth import OAuthToken

import fork_server
from ropewalk import Runner, Toolbox
from ropewalk.config.secrets import ProcessSecrets
from ropewalk.errors import ConfigError, ExecutionFailed
from ropewalk.tools.mcp.auth_settings import auth_settings
from ropewalk.tools.mcp.authorization_server import token_answer
from ropewalk.tools.mcp.login import Loopback
from ropewalk.tools.mcp.login_errors import LoginRequired
from ropewalk.tools.mcp.servers import McpServers
from tiers import Scale

from .mcp_lab import HttpServer, guarded

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test has its own logins, in files."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    return tmp_path / "ropewalk" / "logins"


@pytest.fixture(scope="module")
def process() -> Iterator[HttpServer]:
    with guarded() as found:
        yield found


@pytest.fixture
def server(process: HttpServer) -> HttpServer:
    post(process, "/reset")
    return process


@pytest.fixture
def short_lived() -> Iterator[HttpServer]:
    with guarded(lifetime=1) as found:
        yield found


async def browse(address: str, _: Loopback) -> None:
    async with httpx2.AsyncClient(follow_redirects=True, timeout=None) as browser:
        page = await browser.get(address)
        assert "You are logged in" in page.text


def seen(server: HttpServer) -> dict[str, Any]:
    with urllib.request.urlopen(server.url.replace("/mcp", "/seen")) as answer:
        return json.load(answer)


def post(server: HttpServer, path: str) -> None:
    urllib.request.urlopen(urllib.request.Request(server.url.replace("/mcp", path), method="POST")).close()


def servers(server: HttpServer, **config: Any) -> McpServers:
    result = McpServers()
    result.add("guarded", {"url": server.url, **config})
    return result


async def text(mcp: McpServers, tool: str = "who") -> str:
    return str((await mcp.call_tool("guarded", tool)).content[0].text)


def test_without_a_login_a_call_fails_at_once_and_says_what_to_do(server: HttpServer) -> None:
    async def case() -> None:
        async with Toolbox(mcp={"guarded": {"url": server.url}}) as toolbox:
            assert toolbox.failures["guarded"] == "MCP server 'guarded' wants a login (HTTP 401)"
            with pytest.raises(Exception, match=r"wants a login.*log_in\('guarded', show\)"):
                await Runner(toolbox).run("guarded:who", {})
        # Nothing of an authorization was tried.
        assert set(seen(server)["used"]) == {"401"}

    asyncio.run(case())


def test_a_login_is_kept_for_later_processes_in_a_file_of_the_user(
    server: HttpServer, state: Path, tmp_path: Path
) -> None:
    async def log_in() -> None:
        async with servers(server) as mcp:
            assert await mcp.log_in("guarded", browse)
            assert not await mcp.log_in("guarded", browse), "it has a login"

    asyncio.run(log_in())
    (file,) = state.glob("*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700

    program = tmp_path / "later.py"
    program.write_text(f"""
import asyncio
from ropewalk.tools.mcp.servers import McpServers
async def main():
    async with McpServers() as mcp:
        mcp.add("guarded", {{"url": {server.url!r}}})
        print((await mcp.call_tool("guarded", "who")).content[0].text)
asyncio.run(main())
""")
    done = fork_server.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert done.stdout == "Bearer ***\n", "the token reached the server, and no answer shows it"
    assert seen(server)["used"]["login"] == 1


def test_no_text_shows_a_token(server: HttpServer, state: Path) -> None:
    async def case() -> None:
        async with servers(server) as mcp:
            await mcp.log_in("guarded", browse)
            assert await text(mcp) == "Bearer ***"

    asyncio.run(case())
    tokens = json.loads(next(state.glob("*.json")).read_bytes())["tokens"]
    shown = f"{tokens['access_token']} {tokens['refresh_token']}"
    assert ProcessSecrets({}).redaction.text(shown) == "*** ***", "logs and journals hide both"


def test_a_token_that_the_server_ended_is_refreshed_without_a_person(server: HttpServer) -> None:
    async def case() -> None:
        async with servers(server) as mcp:
            await mcp.log_in("guarded", browse)
            await asyncio.to_thread(post, server, "/end")
            assert await text(mcp) == "Bearer ***"
        await asyncio.to_thread(post, server, "/end")
        async with servers(server) as mcp:
            assert await text(mcp) == "Bearer ***", "a later process does the same"

    asyncio.run(case())
    used = seen(server)["used"]
    assert (used["refresh_token"], used["login"]) == (2, 1)


@pytest.mark.campaign("faults")
def test_many_processes_refresh_one_login_once_at_a_time(short_lived: HttpServer, tmp_path: Path, scale: Scale) -> None:
    """Each refresh token is taken once. A process that used it a second time would end the login of all."""

    async def log_in() -> None:
        async with servers(short_lived) as mcp:
            await mcp.log_in("guarded", browse)

    asyncio.run(log_in())
    calls = scale(3, 4)
    program = tmp_path / "crowd.py"
    program.write_text(f"""
import asyncio
from ropewalk.tools.mcp.servers import McpServers
async def main():
    async with McpServers() as mcp:
        mcp.add("guarded", {{"url": {short_lived.url!r}}})
        for number in range({calls}):
            await asyncio.sleep(0.7 if number else 0)
            print((await mcp.call_tool("guarded", "who")).content[0].text)
asyncio.run(main())
""")
    crowd = [fork_server.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    results = [process.communicate()[0] for process in crowd]
    used = seen(short_lived)["used"]
    assert "stolen" not in used
    assert used["refresh_token"] >= 1
    assert results == ["Bearer ***\n" * calls] * 4


def test_calls_with_a_login_run_at_once(server: HttpServer) -> None:
    """The SDK's own flow would send one request at a time; this tool answers when eight callers are there."""

    async def case() -> None:
        async with servers(server, timeout=60) as mcp:
            await mcp.log_in("guarded", browse)
            assert await asyncio.gather(*(text(mcp, "slow") for _ in range(8))) == ["Bearer ***"] * 8

    asyncio.run(case())


def test_a_tool_that_wants_more_rights_says_which(server: HttpServer) -> None:
    async def case() -> None:
        async with servers(server) as mcp:
            await mcp.log_in("guarded", browse)
            with pytest.raises(LoginRequired, match="wants a login with more rights") as caught:
                await text(mcp, "admin")
            assert caught.value.scope == "admin"
            assert await text(mcp) == "Bearer ***", "the other tools still work"
            assert await mcp.log_in("guarded", browse, scope="admin")
            assert await text(mcp, "admin") == "Bearer ***"
            assert await text(mcp) == "Bearer ***"

    asyncio.run(case())
    assert seen(server)["used"]["register"] == 1, "the client is registered once"


def test_a_runner_carries_the_remedy(server: HttpServer) -> None:
    async def case() -> None:
        async with Toolbox(mcp={"guarded": {"url": server.url}}) as toolbox:
            await toolbox.mcp.log_in("guarded", browse)
            with pytest.raises(ExecutionFailed) as caught:
                await Runner(toolbox).run("guarded:admin", {})
            assert caught.value.remedy is not None
            assert caught.value.remedy.arguments == {"server": "guarded", "scope": "admin"}
            assert not caught.value.retryable

    asyncio.run(case())


def test_no_login_at_another_authorization_server_than_the_configured_one(server: HttpServer) -> None:
    """Neither a registration nor a secret gets there."""

    async def case() -> None:
        auth = {"type": "oauth", "issuer": "https://login.example"}
        async with servers(server, auth=auth) as mcp:
            with pytest.raises(ConfigError, match=r"its authorization server is .*, and auth\.issuer names https"):
                await mcp.log_in("guarded", browse)

    asyncio.run(case())
    assert "register" not in seen(server)["used"]


def test_logging_out_deletes_the_login(server: HttpServer, state: Path) -> None:
    async def case() -> None:
        async with servers(server) as mcp:
            await mcp.log_in("guarded", browse)
        async with servers(server) as mcp:
            assert await mcp.log_out("guarded")
            assert not await mcp.log_out("guarded")
            with pytest.raises(LoginRequired):
                await mcp.connect("guarded")

    asyncio.run(case())
    assert not list(state.glob("*.json"))


def test_another_address_under_the_same_name_gets_no_token(server: HttpServer) -> None:
    async def case(other: HttpServer) -> None:
        async with servers(server) as mcp:
            await mcp.log_in("guarded", browse)
        async with servers(other) as mcp:
            with pytest.raises(LoginRequired):
                await mcp.connect("guarded")

    with guarded() as other:
        asyncio.run(case(other))
        assert seen(other)["headers"] == {}


@pytest.mark.parametrize("spoil", ["readable", "link", "damaged"])
def test_a_file_that_others_could_read_or_replace_is_not_used(server: HttpServer, state: Path, spoil: str) -> None:
    async def log_in() -> None:
        async with servers(server) as mcp:
            await mcp.log_in("guarded", browse)

    async def connect() -> None:
        async with servers(server) as mcp:
            await mcp.connect("guarded")

    asyncio.run(log_in())
    (file,) = state.glob("*.json")
    if spoil == "readable":
        file.chmod(0o644)
    elif spoil == "link":
        file.rename(state / "elsewhere")
        file.symlink_to(state / "elsewhere")
    else:
        file.write_bytes(file.read_bytes()[:40])
    error = LoginRequired if spoil == "damaged" else Exception
    with pytest.raises(error, match="wants a login" if spoil == "damaged" else "delete the file|cannot read"):
        asyncio.run(connect())


def test_a_foreign_request_cannot_end_a_login(server: HttpServer) -> None:
    async def show(address: str, loopback: Loopback) -> None:
        async with httpx2.AsyncClient(timeout=None) as browser:
            for target in ("?code=stolen&state=guess", "?error=access_denied", "/../x", ""):
                page = await browser.get(loopback.uri + target)
                assert page.status_code == 404
            reader, writer = await asyncio.open_connection("127.0.0.1", httpx2.URL(loopback.uri).port)
            writer.write(b"\x16\x03\x01 not http\r\n\r\n")
            await reader.read()
            writer.close()
        await browse(address, loopback)

    async def case() -> None:
        async with servers(server) as mcp:
            assert await mcp.log_in("guarded", show)

    asyncio.run(case())


def test_a_pasted_address_logs_in(server: HttpServer) -> None:
    """The browser runs on another machine: it cannot reach our loopback address, but its address bar has the answer."""

    async def show(address: str, loopback: Loopback) -> None:
        async with httpx2.AsyncClient(timeout=None) as browser:
            ended_at = (await browser.get(address)).headers["location"]
        assert loopback.receive(ended_at.replace("state=", "state=x")) is not None
        assert loopback.receive(f"  {ended_at}\n") is None

    async def case() -> None:
        async with servers(server) as mcp:
            assert await mcp.log_in("guarded", show)
            assert await text(mcp) == "Bearer ***"

    asyncio.run(case())


@pytest.mark.parametrize(
    ("auth", "why"),
    [
        ("oauht", "did you mean 'oauth'"),
        ({"type": "oauth", "client_secret": "x" * 9}, "client_secret needs issuer"),
        ({"type": "oauth", "client_idd": "x"}, "did you mean 'client_id'"),
        ({"type": "client_credentials", "client_id": "x", "issuer": "https://as"}, "exactly one of client_secret"),
        ({"type": "workload", "issuer": "https://as"}, "workload needs client_id"),
        ({"type": "oauth", "redirect_port": "80"}, "redirect_port must be a port"),
        ({"authorization_params": {"access_type": 1}}, "authorization_params must be a table of texts"),
        ({"authorization_params": {"state": "s", "a": "b"}}, "authorization_params cannot set state"),
        ({"type": "oauth", "client_metadata_url": "http://x/y"}, "must be an https address"),
        (["oauth"], "or a table with a type"),
    ],
)
def test_wrong_settings_name_the_key(auth: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        auth_settings("MCP server 'x'", auth)


@pytest.mark.parametrize("url", ["http://192.0.2.1/mcp", "http://shop.example/mcp"])
def test_no_login_over_a_network_without_https(url: str) -> None:
    async def case() -> None:
        async with McpServers() as mcp:
            mcp.add("plain", {"url": url, "connect_timeout": 0.1,
                              "auth": {"type": "client_credentials", "client_id": "me", "client_secret": "long-secret",
                                       "issuer": "https://as.example"}})  # fmt: skip
            with pytest.raises(ConfigError, match="must be an https address"):
                await mcp.connect("plain")

    asyncio.run(case())


def test_a_login_in_the_keyring(server: HttpServer, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keyring = pytest.importorskip("keyring")
    from keyring.backend import KeyringBackend

    class InMemory(KeyringBackend):
        priority = 5

        def __init__(self) -> None:
            super().__init__()
            self.kept: dict[tuple[str, str], str] = {}

        def get_password(self, service: str, username: str) -> str | None:
            return self.kept.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            self.kept[service, username] = password

        def delete_password(self, service: str, username: str) -> None:
            del self.kept[service, username]

    backend = InMemory()
    monkeypatch.delenv("PYTHON_KEYRING_BACKEND")
    before = keyring.get_keyring()
    keyring.set_keyring(backend)
    try:

        async def case() -> None:
            async with servers(server) as mcp:
                await mcp.log_in("guarded", browse)
                assert await text(mcp) == "Bearer ***"
            async with servers(server) as mcp:
                assert await text(mcp) == "Bearer ***"
                assert len(backend.kept) == 1
                assert await mcp.log_out("guarded")

        asyncio.run(case())
    finally:
        keyring.set_keyring(before)
    assert backend.kept == {}
    assert not list(state.glob("*.json")), "no token is in a file"


ACCESS, REFRESH = "gho_AAAABBBBCCCCDDDD", "ghr_SECRETSECRETSECRET"
FORM = f"access_token={ACCESS}&token_type=bearer&refresh_token={REFRESH}&expires_in=3600"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (FORM, None),
        (
            json.dumps({"access_token": ACCESS, "refresh_token": REFRESH, "expires_in": "3600", "id_token": "x.y.z"}),
            None,
        ),
        (json.dumps({"access_token": ACCESS, "refresh_token": REFRESH, "token_type": "bearer"}), None),
        ("error=bad_verification_code&error_description=The+code+expired", "refuses the login: The code expired"),
        (json.dumps({"error": "slow_down"}), "refuses the login: slow_down"),
        (json.dumps({"refresh_token": REFRESH}), "has no valid access_token"),
        (json.dumps({"access_token": ACCESS, "expires_in": REFRESH}), "has no valid expires_in"),
        (json.dumps({"access_token": {"value": ACCESS}}), "has no valid access_token"),
        (json.dumps([ACCESS]), "has no valid access_token"),
        (f"<html>{ACCESS}</html>", "has no valid access_token"),
        ("", "has no valid access_token"),
    ],
)
def test_an_answer_with_tokens_is_read_in_any_form_and_never_shown(
    body: str, problem: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    asked = httpx2.Request("POST", "https://login.example/token")
    answer = httpx2.Response(200, content=body, headers={"content-type": "text/plain"}, request=asked)
    shown = caplog.text
    if problem is None:
        read = OAuthToken.model_validate_json(token_answer(answer).content)
        assert (read.access_token, read.refresh_token) == (ACCESS, REFRESH)
    else:
        with pytest.raises(OAuthTokenError, match=problem) as caught:
            token_answer(answer)
        shown += "".join(traceback.format_exception(caught.value))
    assert ACCESS not in shown
    assert REFRESH not in shown
