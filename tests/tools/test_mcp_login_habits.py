"""Logins at authorization servers with the habits of those that people use: one stand-in, whose habits are a row."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import secrets
import threading
import traceback
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ropewalk import App, Toolbox
from ropewalk.errors import ConfigError
from ropewalk.telemetry import instrument
from ropewalk.tools.mcp.login import Loopback
from ropewalk.tools.mcp.login_errors import LoginRequired
from ropewalk.tools.mcp.servers import McpServers

pytestmark = pytest.mark.process


@dataclasses.dataclass(frozen=True)
class Habits:
    """What an authorization server does in its own way."""

    path: str = ""  # of its issuer
    listed: str | None = None  # the issuer that the MCP server lists, if it spells it differently
    stated: str | None = None  # the issuer that the metadata state, if it is another one
    openid: bool = False  # its metadata are only where OpenID Connect has them
    pkce: tuple[str, ...] | None = ("S256",)
    registers: bool = True
    secret: bool = False  # it wants the client's secret
    resource: bool = True  # it allows the parameter `resource`
    scope_at_refresh: bool = False
    form: bool = False  # it answers as a form, unless a client asks for JSON
    always_form: bool = False
    rotates: bool = True  # a refresh gives a new refresh token
    offline: bool = False  # a login can be refreshed only if its address asked for that
    refusal: int = 400  # the status of a refusal
    echoes: bool = False  # its refusals repeat what was sent
    bad: str = ""  # what is wrong with its answers
    extra: tuple[tuple[str, Any], ...] = ()  # more members of answers with tokens


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")


class Handler(BaseHTTPRequestHandler):
    """An MCP server with one tool, and its authorization server."""

    protocol_version = "HTTP/1.1"
    server: StandIn

    def log_message(self, *_: object) -> None:
        pass

    def say(self, value: Any, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        body = value.encode() if isinstance(value, str) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def do_GET(self) -> None:
        at, habits, home = urlsplit(self.path), self.server.habits, self.server.home
        issuer = home + habits.path
        if at.path == "/.well-known/oauth-protected-resource/mcp":
            listed = issuer if habits.listed is None else habits.listed.format(home=home)
            resource = {"resource": f"{home}/mcp", "authorization_servers": [listed], "scopes_supported": ["use"]}
            self.say(" " * 2_000_000 if habits.bad == "size" else resource)
        elif at.path == (f"{habits.path}/.well-known/openid-configuration" if habits.openid else
                         f"/.well-known/oauth-authorization-server{habits.path}"):  # fmt: skip
            metadata: dict[str, Any] = {
                "issuer": issuer if habits.stated is None else habits.stated.format(home=home),
                "authorization_endpoint": f"{home}/authorize",
                "token_endpoint": f"{home}/token",
            }
            if habits.registers:
                metadata["registration_endpoint"] = f"{home}/register"
            if habits.pkce is not None:
                metadata["code_challenge_methods_supported"] = habits.pkce
            self.say(metadata)
        elif at.path == "/authorize":
            query = dict(parse_qsl(at.query))
            if "resource" in query and not habits.resource:
                back = {
                    "error": "invalid_target",
                    "error_description": "AADSTS9010010: resource",
                    "state": query["state"],
                }
            else:
                assert query["code_challenge_method"] == "S256"
                self.server.is_offline = query.get("access_type") == "offline"
                back = {"code": self.server.issue("code"), "state": query["state"]}
                if habits.stated is not None:
                    back["iss"] = habits.stated.format(home=home)
            self.say("", 302, location=f"{query['redirect_uri']}?{urlencode(back)}")
        else:
            self.say({}, 405 if at.path == "/mcp" else 404)

    def do_POST(self) -> None:
        body, habits = self.rfile.read(int(self.headers.get("content-length") or 0)), self.server.habits
        if self.path == "/mcp":
            self.call(json.loads(body))
        elif self.path == "/register":
            client = {**json.loads(body), "client_id": "client", "client_secret": self.server.issue("secret")}
            client["redirect_uris"] = client["client_secret"] if habits.bad == "client" else client["redirect_uris"]
            self.say(client | {"token_endpoint_auth_method": "none"}, 201)
        else:
            self.tokens(dict(parse_qsl(body.decode())))

    def tokens(self, form: dict[str, str]) -> None:
        habits, server = self.server.habits, self.server
        server.grants.append(form["grant_type"])
        if habits.always_form or (habits.form and "json" not in self.headers.get("accept", "")):
            kind, write = "application/x-www-form-urlencoded", urlencode
        else:
            kind, write = "application/json", json.dumps
        problem = server.problem(form)
        if habits.secret and "authorization" not in self.headers:
            problem = "invalid_client"
        if problem:
            sent = f"{problem}: {json.dumps(form)}" if habits.echoes else problem
            self.say(write({"error": problem, "error_description": sent}), habits.refusal, kind)
            return
        answer = {
            "access_token": server.issue("access"),
            "token_type": "bearer",
            "expires_in": 3600,
            **dict(habits.extra),
        }
        server.valid = answer["access_token"]
        is_kept = server.is_offline or not habits.offline
        if is_kept and (form["grant_type"] == "authorization_code" or habits.rotates):
            answer["refresh_token"] = server.refresh = server.issue("refresh")
        if habits.bad == "tokens":
            answer["expires_in"] = answer["refresh_token"]
        self.say(write(answer), 200, kind)

    def call(self, message: dict[str, Any]) -> None:
        if self.headers.get("authorization") != f"Bearer {self.server.valid}":
            where = f'Bearer resource_metadata="{self.server.home}/.well-known/oauth-protected-resource/mcp"'
            self.say({}, 401, www_authenticate=where)
            return
        methods = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"},
            },
            "tools/list": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("go", "fail")]},
            "tools/call": {"content": [{"type": "text", "text": f"done with {self.server.valid}"}]},
        }
        if "id" not in message:
            self.say("", 202)
        elif message.get("params", {}).get("name") == "fail":
            error = {"code": -32001, "message": f"{self.server.valid} may not", "data": [self.server.valid]}
            self.say({"jsonrpc": "2.0", "id": message["id"], "error": error})
        elif message["method"] in methods:
            self.say({"jsonrpc": "2.0", "id": message["id"], "result": methods[message["method"]]})
        else:
            self.say({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "unknown"}})


class StandIn(ThreadingHTTPServer):
    """The server, what it has issued, and what it takes."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.home = f"http://127.0.0.1:{self.server_port}"
        self.start(Habits())

    def start(self, habits: Habits) -> None:
        self.habits, self.valid, self.refresh, self.is_offline = habits, "", "", False
        self.issued: list[str] = []
        self.grants: list[str] = []
        self.refuses = False

    def issue(self, kind: str) -> str:
        self.issued.append(f"{kind}-{secrets.token_hex(12)}")
        return self.issued[-1]

    def problem(self, form: dict[str, str]) -> str | None:
        if self.refuses:
            return "invalid_grant"
        if "resource" in form and not self.habits.resource:
            return "invalid_target"
        if form["grant_type"] == "authorization_code":
            return None if form["code"] in self.issued and len(form["code_verifier"]) >= 43 else "invalid_grant"
        if form["refresh_token"] != self.refresh:
            return "bad_refresh_token"
        return "invalid_scope" if self.habits.scope_at_refresh and "scope" not in form else None


@pytest.fixture(scope="module")
def process() -> Iterator[StandIn]:
    server = StandIn()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


async def browse(address: str, _: Loopback) -> None:
    # Not with httpx2: the log of the browser is not ours, and shows the code in its address.
    with contextlib.suppress(urllib.error.HTTPError):  # the page of a refused login
        (await asyncio.to_thread(urllib.request.urlopen, address)).close()


def servers(server: StandIn, **auth: Any) -> McpServers:
    result = McpServers()
    result.add("s", {"url": f"{server.home}/mcp", "auth": {"type": "oauth", **auth}})
    return result


OWN_CLIENT = {"client_id": "client", "issuer": "{home}"}
ATLASSIAN = Habits(path="/tenant", stated="{home}")
ENTRA = Habits(
    path="/tenant/v2.0", openid=True, pkce=None, registers=False, resource=False, scope_at_refresh=True,
    extra=(("ext_expires_in", 3600),),
)  # fmt: skip
GITHUB = Habits(path="/login/oauth", registers=False, form=True, refusal=200, extra=(("scope", "repo,gist"),))
GOOGLE = Habits(listed="{home}/", openid=True, registers=False, secret=True, rotates=False, offline=True)
KEYCLOAK = Habits(
    path="/realms/main", openid=True, pkce=("plain", "S256"),
    extra=(("refresh_expires_in", 1800), ("not-before-policy", 0), ("session_state", "s")),
)  # fmt: skip
SECRET = "GOCSPX-0123456789"
RUN: dict[str, Any] = {
    "kind": "chain",
    "name": "r",
    "nodes": [
        {"id": "go", "type": "tool", "tool": "s:go", "params": {}, "errorStrategy": "continue"},
        {"id": "fail", "type": "tool", "tool": "s:fail", "params": {}, "errorStrategy": "continue"},
    ],
}


@pytest.mark.parametrize(
    ("habits", "auth"),
    [
        pytest.param(Habits(), {}, id="MCP specification"),
        pytest.param(ATLASSIAN, {"metadata_issuer": "{home}"}, id="Atlassian"),
        pytest.param(
            ENTRA,
            {"client_id": "c", "issuer": "{home}/tenant/v2.0", "scope": "api://x/use offline_access"}
            | {"assume_pkce": True, "resource": False, "refresh_scope": True},
            id="Entra",
        ),
        pytest.param(GITHUB, {"client_id": "c", "issuer": "{home}/login/oauth"}, id="GitHub"),
        pytest.param(
            dataclasses.replace(GITHUB, always_form=True), {"client_id": "c", "issuer": "{home}/login/oauth"}, id="form"
        ),
        pytest.param(
            GOOGLE,
            {"client_id": "c", "issuer": "{home}", "client_secret": SECRET}
            | {"authorization_params": {"access_type": "offline", "prompt": "consent"}},
            id="Google",
        ),
        pytest.param(KEYCLOAK, {}, id="Keycloak"),
        pytest.param(Habits(path="/a", stated="{home}/a/"), {}, id="slash after the issuer"),
    ],
)
def test_a_login_works_is_refreshed_and_ends_as_a_login_and_nothing_shows_a_token(
    process: StandIn,
    habits: Habits,
    auth: dict[str, Any],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    process.start(habits)
    settings = {
        key: value.format(home=process.home) if isinstance(value, str) else value for key, value in auth.items()
    }
    caplog.set_level(logging.DEBUG)
    logging.getLogger().addHandler(handler := logging.StreamHandler())  # to standard error
    spans, tracers = InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    place = tmp_path / "store"
    place.mkdir()

    async def case() -> str:
        toolbox = Toolbox(mcp={"s": {"url": f"{process.home}/mcp", "auth": {"type": "oauth", **settings}}})
        async with App(f"sqlite:///{place / 'runs.db'}", toolbox=toolbox) as app:
            instrument(app, tracers=tracers)
            assert await toolbox.mcp.log_in("s", browse)
            outcomes = [await app.run(RUN)]
            process.valid = "ended"
            outcomes.append(await app.run(RUN))
            assert [item.to_dict()["status"] for item in outcomes] == ["partial", "partial"]
            process.valid, process.refuses = "ended", True
            outcomes.append(await app.run(RUN))
            with pytest.raises(LoginRequired) as caught:
                await toolbox.mcp.call_tool("s", "go")
        shown = [str(outcome.to_dict()) for outcome in outcomes] + traceback.format_exception(caught.value)
        assert "done with ***" in shown[1]
        assert "*** may not" in shown[1]
        return " ".join(shown)

    try:
        shown = asyncio.run(case()) + caplog.text + "".join(capfd.readouterr())
    finally:
        logging.getLogger().removeHandler(handler)
    exported = spans.get_finished_spans()
    assert {span.name for span in exported} >= {"execute_tool s:go"}
    shown += "".join(span.to_json() for span in exported)
    stored = b"".join(file.read_bytes() for file in place.iterdir())
    assert b"*** may not" in stored
    assert process.grants == ["authorization_code", "refresh_token", "refresh_token"]
    assert len(process.issued) >= 4
    tokens = (*process.issued, SECRET)
    assert [text for text in tokens if text in shown or text.encode() in stored] == []


@pytest.mark.parametrize(
    ("habits", "auth", "problem"),
    [
        (Habits(pkce=None), {}, "does not say that it supports PKCE .*auth.assume_pkce = true"),
        (Habits(pkce=("plain",)), {"assume_pkce": True}, "supports PKCE only with"),
        (ATLASSIAN, {}, 'name the issuer .*; if that is right, set auth.metadata_issuer = "http'),
        (Habits(stated="https://honest.example"), {}, "name the issuer https://honest.example"),
        (Habits(resource=False), {}, "AADSTS9010010"),
        (Habits(listed="https://10.0.0.1"), {}, "leads to 10.0.0.1, a private address"),
        (Habits(listed="https://169.254.169.254"), {}, "leads to 169.254.169.254, a link-local address"),
        (Habits(listed="http://login.example.com"), {}, "must be an https address"),
        (Habits(bad="size"), {}, "more than 1 MiB"),
        (Habits(bad="tokens"), {}, "has no valid expires_in"),
        (Habits(bad="tokens", always_form=True), {}, "has no valid expires_in"),
        (Habits(bad="client"), {}, "has no valid redirect_uris"),
        (Habits(secret=True, echoes=True), {}, r"invalid_client: .*\*\*\*"),
        (Habits(secret=True, echoes=True, always_form=True), {}, r"invalid_client: .*\*\*\*"),
        (Habits(secret=True, echoes=True, refusal=200), {}, r"invalid_client: .*\*\*\*"),
    ],
)
def test_a_refused_login_says_why_without_what_was_issued(
    process: StandIn, habits: Habits, auth: dict[str, Any], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    process.start(habits)
    caplog.set_level(logging.DEBUG)

    async def case() -> str:
        async with servers(process, **auth) as mcp:
            with pytest.raises(ConfigError, match=problem) as caught:
                await mcp.log_in("s", browse)
        return "".join(traceback.format_exception(caught.value))

    shown = asyncio.run(case()) + caplog.text
    assert [text for text in process.issued if text in shown] == []
