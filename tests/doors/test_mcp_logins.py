"""Logins from the command line and in the gateway. The browser agrees to everything; the servers are of the test."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.request import Request, urlopen

import httpx2
import pytest
from mcp_project import COMMAND, Served, environment
from test_mcp_http import AUTHORIZED, TOKEN, listening

import fork_server
from tools.mcp_lab import HttpServer, guarded

pytestmark = pytest.mark.process

CHAIN = 'kind: chain\nname: ask\nnodes:\n  - {id: who, type: tool, tool: "guarded:TOOL", params: {}}\n'
BROWSER = f"""{sys.executable} -c "import sys, urllib.request; urllib.request.urlopen(sys.argv[1])" %s &"""


@pytest.fixture(scope="module")
def process() -> Iterator[HttpServer]:
    with guarded() as found:
        yield found


@pytest.fixture
def project(tmp_path: Path, process: HttpServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    urlopen(Request(process.url.replace("/mcp", "/reset"), method="POST")).close()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    home = tmp_path / "project"
    home.mkdir()
    (home / "ropewalk.toml").write_text(f'[mcp.guarded]\nurl = "{process.url}"\n[mcp.clock]\ncommand = "x"\n')
    for tool in ("who", "admin"):
        (home / f"{tool}.yaml").write_text(CHAIN.replace("TOOL", tool))
    return home


def ropewalk(home: Path, *words: str, browser: str = BROWSER) -> tuple[int, str, str]:
    env = {**os.environ, **environment(), "BROWSER": browser}
    done = fork_server.run([COMMAND, *words], cwd=home, env=env, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def failure(home: Path, *words: str) -> str:
    code, out, err = ropewalk(home, *words)
    assert code
    return out + err


def test_a_project_logs_in_runs_and_logs_out(project: Path, process: HttpServer) -> None:
    remedy = "to log in: ropewalk tools login guarded"
    _, listed, _ = ropewalk(project, "tools", "ls")
    assert f": MCP server 'guarded' wants a login (HTTP 401); {remedy}" in listed
    assert remedy in failure(project, "tools", "call", "guarded:who")
    assert remedy in failure(project, "run", "who.yaml")
    assert remedy in ropewalk(project, "doctor")[1]

    code, out, err = ropewalk(project, "tools", "login", "guarded", "--json")
    assert code == 0, err
    assert json.loads(out) == {"server": "guarded", "loggedIn": True, "tools": 3}
    assert f"{process.url.removesuffix('/mcp')}/login?" in err, "the address, for a browser that did not open"
    assert ropewalk(project, "run", "who.yaml")[0] == 0

    assert "ropewalk tools login guarded --scope admin" in failure(project, "tools", "call", "guarded:admin")
    assert "wants a login with more rights: admin" in failure(project, "run", "admin.yaml")
    assert ropewalk(project, "tools", "login", "guarded", "--scope", "admin")[0] == 0
    assert ropewalk(project, "run", "admin.yaml")[0] == 0

    assert "guarded:who" in ropewalk(project, "tools", "ls")[1]
    assert ropewalk(project, "tools", "logout", "guarded")[1] == "deleted the login at guarded\n"
    assert remedy in ropewalk(project, "tools", "ls")[1], "its list of tools was that of the login"
    assert ropewalk(project, "tools", "logout", "guarded")[1] == "there is no login at guarded\n"


@pytest.mark.parametrize(
    ("server", "why"), [("guardd", "did you mean 'guarded'"), ("clock", "is a program; only servers with a url")]
)
def test_a_server_without_logins_says_why(project: Path, server: str, why: str) -> None:
    assert why in failure(project, "tools", "logout", server)


def test_the_gateway_never_passes_the_token_of_its_client_on(project: Path, process: HttpServer) -> None:
    """A server behind the gateway sees the gateway's own login, whatever a client of the gateway sends."""
    assert ropewalk(project, "tools", "login", "guarded")[0] == 0
    served = Served(project)
    served.write("ropewalk.toml", f'[mcp.guarded]\nurl = "{process.url}"\n[mcp_server]\ngateway = true\n')
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "guarded__who", "arguments": {}}}

    async def ask(url: str) -> str:
        async with httpx2.AsyncClient(timeout=None, headers=AUTHORIZED) as client:
            begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            first = await client.post(url, json={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": begin})
            session = {name: first.headers[name] for name in ("mcp-session-id",) if name in first.headers}
            await client.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
            return (await client.post(url, json=call, headers=session)).text

    with listening(served) as gateway:
        answer = asyncio.run(ask(gateway.url))
    assert "Bearer ***" in answer, "nor does a client of the gateway see the gateway's token"
    with urlopen(process.url.replace("/mcp", "/seen")) as seen:
        headers = json.load(seen)["headers"]
    assert headers["authorization"].startswith("Bearer ")
    assert TOKEN not in json.dumps(headers)


REFUSED = """
[mcp.keyed]
url = "URL/401?key=sesame"
headers = { X-Key = "wrong" }
[mcp.open]
url = "URL/401"
[mcp.broken]
url = "URL/500"
[mcp.astray]
url = "URL/mpc"
[mcp.down]
url = "http://127.0.0.1:1/mcp"
"""
BODY = b'{"error": "the key of sesame is not known"}'


class Refusing(BaseHTTPRequestHandler):
    """Answers each request with the status in its path, or with 404."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        number = self.path[1:4]
        self.send_response(int(number) if number.isdecimal() else 404)
        self.send_header("content-length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    do_GET = do_POST

    def log_message(self, *_: object) -> None:
        """Write nothing."""


def test_a_server_that_refuses_is_named_with_its_answer_and_the_line(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as http:
        Thread(target=http.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{http.server_port}"
        (tmp_path / "ropewalk.toml").write_text(REFUSED.replace("URL", url))
        _, listed, _ = ropewalk(tmp_path, "tools", "ls")
        logins = {name: failure(tmp_path, "tools", "login", name) for name in ("keyed", "open", "broken", "down")}
        http.shutdown()
    answer = f"from {url}/%s: {BODY.decode()}"
    for name, text in {
        "keyed": f"ropewalk.toml:4:1: MCP server 'keyed': HTTP 401 Unauthorized {answer % 401}; "
        "`headers` were sent (X-Key): check the key in them",
        "open": f"ropewalk.toml:6:1: MCP server 'open': HTTP 401 Unauthorized {answer % 401}; "
        "a key in `headers` is probably missing",
        "broken": f"ropewalk.toml:8:1: MCP server 'broken': HTTP 500 Internal Server Error {answer % 500}",
        "astray": f"ropewalk.toml:10:1: MCP server 'astray': HTTP 404 Not Found {answer % 'mpc'}; "
        "the path of an MCP server is often /mcp",
        "down": "ropewalk.toml:12:1: MCP server 'down' could not be reached at http://127.0.0.1:1/mcp",
    }.items():
        assert f"! {name}: {text}" in listed
        # The login says the same, without a traceback.
        assert name not in logins or logins[name].startswith(f"error: {text}")
