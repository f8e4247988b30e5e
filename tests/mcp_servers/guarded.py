"""An MCP server that wants a login, with its authorization server; everything over HTTP on one port of this machine.

    guarded.py PORT [LIFETIME]

The authorization server registers clients, agrees to every login at once, and takes each refresh token once: a second
use ends the login, as real ones do. Access tokens live LIFETIME seconds. `GET /seen` says what came: the headers of
the last call, and how often each endpoint was used. `POST /end` ends all access tokens, and
`POST /reset` all logins. The tool `admin` wants the scope `admin`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import secrets
import socket
import sys
import time
from collections import Counter
from urllib.parse import urlencode

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

PORT, LIFETIME = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 3600.0
HOME = f"http://127.0.0.1:{PORT}"
used: Counter[str] = Counter()
codes: dict[str, tuple[str, str, str]] = {}  # code: client, challenge, scope
tokens: dict[str, tuple[float, str]] = {}  # access token: until, scope
refreshes: dict[str, str] = {}  # refresh token: scope
spent: set[str] = set()
last: dict[str, str] = {}
crowd = asyncio.Event()


async def list_tools(_: object, __: object) -> types.ListToolsResult:
    empty = {"type": "object"}
    return types.ListToolsResult(tools=[types.Tool(name=name, input_schema=empty) for name in ("who", "admin", "slow")])


async def call_tool(_: object, params: types.CallToolRequestParams) -> types.CallToolResult:
    if params.name == "slow":
        used["slow-begun"] += 1
        if used["slow-begun"] == 8:
            crowd.set()
        await crowd.wait()  # until all callers are here at once
    text = last.get("authorization", "nobody")
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


def token(scope: str) -> Response:
    access, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    tokens[access], refreshes[refresh] = (time.time() + LIFETIME, scope), scope
    answer = {"access_token": access, "token_type": "Bearer", "expires_in": int(LIFETIME), "refresh_token": refresh}
    return JSONResponse({**answer, "scope": scope})


async def resource(_: Request) -> Response:
    return JSONResponse({"resource": f"{HOME}/mcp", "authorization_servers": [HOME], "scopes_supported": ["use"]})


async def metadata(_: Request) -> Response:
    return JSONResponse(
        {
            "issuer": HOME,
            "authorization_endpoint": f"{HOME}/login",
            "token_endpoint": f"{HOME}/oauth/token",
            "registration_endpoint": f"{HOME}/oauth/register",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
        }
    )


async def register(request: Request) -> Response:
    used["register"] += 1
    wanted = await request.json()
    client = {"client_id": secrets.token_urlsafe(8), "token_endpoint_auth_method": "none"}
    return JSONResponse({**wanted, **client}, 201)


async def login(request: Request) -> Response:
    used["login"] += 1
    query = request.query_params
    code = secrets.token_urlsafe(12)
    codes[code] = query["client_id"], query["code_challenge"], query.get("scope", "")
    back = {"code": code, "state": query["state"], "iss": HOME}
    return RedirectResponse(f"{query['redirect_uri']}?{urlencode(back)}")


async def exchange(request: Request) -> Response:
    form = {name: str(value) for name, value in (await request.form()).items()}
    used[form["grant_type"]] += 1
    if form["grant_type"] == "authorization_code":
        client, challenge, scope = codes.pop(form["code"])
        digest = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
        return token(scope) if (client, challenge) == (form["client_id"], digest) else JSONResponse({}, 400)
    refresh = form["refresh_token"]
    if refresh in spent or refresh not in refreshes:
        refreshes.clear()  # somebody has stolen it, or two processes share it carelessly
        used["stolen"] += 1
        return JSONResponse({"error": "invalid_grant"}, 400)
    spent.add(refresh)
    return token(refreshes[refresh])


async def seen(_: Request) -> Response:
    return JSONResponse({"used": used, "headers": last})


async def end(_: Request) -> Response:
    tokens.clear()
    return Response()


async def reset(_: Request) -> Response:
    for kept in (used, codes, tokens, refreshes, spent, last):
        kept.clear()
    return Response()


server = Server("guarded", on_list_tools=list_tools, on_call_tool=call_tool)
manager = StreamableHTTPSessionManager(server, stateless=True, json_response=True)


class Guarded:
    async def __call__(self, scope: dict, receive: object, send: object) -> None:
        await guard(scope, receive, send)


async def guard(scope: dict, receive: object, send: object) -> None:
    request = Request(scope, receive)
    body = await request.body()
    sent = request.headers.get("authorization", "")
    until, granted = tokens.get(sent.removeprefix("Bearer "), (0.0, ""))
    where = f'resource_metadata="{HOME}/.well-known/oauth-protected-resource/mcp"'
    refusal = None
    if until < time.time():
        refusal = Response(status_code=401, headers={"www-authenticate": f'Bearer {where}, scope="use"'})
    elif b'"admin"' in body and "admin" not in granted.split():
        error = f'Bearer error="insufficient_scope", scope="admin", {where}'
        refusal = Response(status_code=403, headers={"www-authenticate": error})
    if refusal is not None:
        used[str(refusal.status_code)] += 1
        await refusal(scope, receive, send)
        return
    last.clear()
    last.update(request.headers)
    sent_body = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def again() -> object:
        return next(sent_body, None) or await receive()

    await manager.handle_request(scope, again, send)


@contextlib.asynccontextmanager
async def life(_: Starlette):
    async with manager.run():
        yield


app = Starlette(
    routes=[
        Route("/.well-known/oauth-protected-resource/mcp", resource),
        Route("/.well-known/oauth-authorization-server", metadata),
        Route("/oauth/register", register, methods=["POST"]),
        Route("/login", login),
        Route("/oauth/token", exchange, methods=["POST"]),
        Route("/seen", seen),
        Route("/reset", reset, methods=["POST"]),
        Route("/end", end, methods=["POST"]),
        Route("/mcp", Guarded()),
    ],
    lifespan=life,
)
listener = socket.create_server(("127.0.0.1", PORT))
print("ready", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
