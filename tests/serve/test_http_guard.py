"""Who may talk to the server: token, Host, Origin; what every answer says; a fuzzer at every route."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tiers import Scale

from .server import TOKEN, Served

NOT_IT: list[dict[str, str]] = [
    {},
    {"Authorization": "Bearer x"},
    {"Authorization": TOKEN},
    {"Authorization": f"Basic {TOKEN}"},
    {"Authorization": "Bearer"},
    *({"Authorization": f"Bearer {TOKEN[:end]}"} for end in range(1, len(TOKEN))),
    *({"Authorization": f"Bearer {wrong}"} for wrong in (f"{TOKEN}x", f"x{TOKEN}", TOKEN.upper(), f"{TOKEN} {TOKEN}")),
    *({"Cookie": f"{name}={value}"} for name in ("ropewalk_token", "ropewalk_session") for value in ("x", "", TOKEN)),
]


def bare(served: Served, **more: Any) -> httpx2.Client:
    return httpx2.Client(base_url=served.url, timeout=30, **more)


def test_every_route_needs_the_token(served: Served) -> None:
    paths = served.get("/api/openapi.json").json()["paths"]
    asked = 0
    with bare(served) as client:
        for path, methods in paths.items():
            for method in methods:
                for headers in NOT_IT:
                    found = client.request(method, path.replace("{", "").replace("}", ""), headers=headers)
                    assert (found.status_code, found.json()["error"]["kind"]) == (401, "Unauthorized"), path
                    asked += 1
        for path in ("/", "/api/openapi.json", "/api", "/docs", "/nothing", "/../etc/passwd"):
            assert client.get(path).status_code == 401
    assert asked >= len(NOT_IT) * 14


def test_the_printed_address_gives_a_cookie_and_hides_the_token(served: Served) -> None:
    with bare(served) as client:
        first = client.get("/api/runs", params={"token": TOKEN, "limit": "3"})
        assert (first.status_code, first.headers["location"]) == (303, "/api/runs?limit=3")
        name, _, rest = first.headers["set-cookie"].partition("=")
        id, _, attributes = rest.partition("; ")
        assert name == f"ropewalk_{served.url.rpartition(':')[2]}"
        assert (len(id) >= 40, attributes) == (True, "Path=/; Max-Age=86400; HttpOnly; SameSite=Strict")
        assert TOKEN not in str(first.headers)
        assert client.get("/api/runs").status_code == 200  # the client keeps cookies
        assert client.get("/api/runs", params={"token": "wrong"}).status_code == 200
    with bare(served) as client:
        assert client.get("/", params={"token": "wrong"}).status_code == 401
        away = client.get(f"{served.url}//evil.example/", params={"token": TOKEN})
        assert away.headers["location"] == "/evil.example/"
    for path in ("/%5Cevil.example/", "/runs/%0D%0ASet-Cookie%3A%20a%3Db", "/runs/a%20b%3Fc%23d", "/runs/%E6%97%A5"):
        with bare(served) as client:
            found = client.get(f"{served.url}{path}", params={"token": TOKEN})
            assert (found.status_code, found.headers["location"]) == (303, path)


def test_only_the_whole_token_in_the_address_starts_a_session(served: Served) -> None:
    wrong = [TOKEN[:end] for end in range(len(TOKEN))] + [f"{TOKEN}x", f"x{TOKEN}", TOKEN.upper(), f" {TOKEN}"]
    with bare(served) as client:
        for token in wrong:
            found = client.get("/", params={"token": token})
            assert (found.status_code, "set-cookie" in found.headers) == (401, False), token
        assert client.get("/", params={"token": TOKEN}).status_code == 303


@pytest.mark.parametrize(
    ("host", "well"),
    [
        ("127.0.0.1:{port}", True),
        ("localhost:{port}", True),
        ("LOCALHOST", True),
        ("[::1]:{port}", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example:{port}", False),
        ("localhost.evil.example", False),
        ("evil.example:127.0.0.1", False),
        ("evillocalhost", False),
        ("evillocalhost:{port}", False),
        ("evil127.0.0.1:{port}", False),
        ("localhostevil:{port}", False),
        ("ocalhost:{port}", False),
        ("[::1].evil.com", False),
        ("[::1].evil.com:{port}", False),
        ("[::1]evil:{port}", False),
        ("[::1", False),
        ("[::1]:", False),
        ("localhost:{port}:{port}", False),
        ("localhost:x", False),
        ("user@localhost:{port}", False),
        ("localhost/evil", False),
        ("localhost.", False),
        ("0.0.0.0:{port}", False),
        ("", False),
    ],
)
def test_only_known_hosts_are_served(served: Served, host: str, well: bool) -> None:
    port = served.url.rpartition(":")[2]
    found = served.get("/api/runs", headers={"Host": host.format(port=port)})
    assert found.status_code == (200 if well else 421)


@pytest.mark.parametrize(
    ("origin", "well"),
    [
        ("http://127.0.0.1:{port}", True),
        ("http://127.0.0.1:1", False),
        ("http://localhost:{port}", False),
        ("http://evil.example", False),
        ("http://127.0.0.1:{port}.evil.example", False),
        ("null", False),
        ("", False),
        ("file://", False),
        ("http://[::1", False),
    ],
)
def test_only_its_own_pages_may_ask(served: Served, origin: str, well: bool) -> None:
    port = served.url.rpartition(":")[2]
    headers = {"Origin": origin.format(port=port)}
    assert served.get("/api/runs", headers=headers).status_code == (200 if well else 403)
    made = served.post("/api/validate", {"document": {}}, headers=headers)
    assert made.status_code == (200 if well else 403)
    assert "access-control-allow-origin" not in made.headers


def test_with_the_cookie_alone_nothing_is_changed_from_elsewhere(served: Served) -> None:
    with bare(served) as client:
        client.get("/", params={"token": TOKEN})
        body = {"document": {}}
        assert client.get("/api/runs").status_code == 200
        assert client.post("/api/validate", json=body).status_code == 403
        assert client.post("/api/validate", json=body, headers={"Origin": served.url}).status_code == 200
        headers = {"Origin": served.url, "Sec-Fetch-Site": "cross-site"}
        assert client.post("/api/validate", json=body, headers=headers).status_code == 403


def test_every_answer_forbids_what_a_page_has_no_use_for(served: Served) -> None:
    for path in ("/api/runs", "/api/nothing", "/api/tools/add"):
        headers = served.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "unsafe-eval'" not in headers["content-security-policy"].replace("wasm-unsafe-eval", "")
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_no_code_comes_in(served: Served, tmp_path: Path) -> None:
    sentinel = tmp_path / "sentinel.py"
    sentinel.write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\n")
    graph = {"nodes": [{"id": "a", "kind": "tool", "impl": str(sentinel), "args": {}, "writes": ["n"]}], "edges": []}
    state = {"schema": {"n": {"type": "number"}}}
    document = {"kind": "experience", "name": "x", "version": "0.1.0", "state": state, "graph": graph}
    for path in ("/api/validate", "/api/preview", "/api/runs", "/api/definitions/chain"):
        found = served.post(path, {"document": document})
        assert "an experience names files of its directory" in found.text
        assert served.post(path, {"document": str(sentinel)}).json().get("valid") is not True
        assert "a definition must be an object" in served.post(path, {"document": str(tmp_path)}).text
    assert served.post("/api/definitions/experience", {"document": document}).status_code == 422
    assert not (tmp_path / "imported").exists()


@pytest.mark.campaign("fuzz")
def test_a_fuzzer_finds_no_fault_of_the_server(served: Served, scale: Scale, seed: int) -> None:
    command = shutil.which("schemathesis", path=str(Path(sys.executable).parent)) or shutil.which("schemathesis")
    assert command, "it is one of the test parts"
    # FastAPI names in `Allow` what one route takes, not the resource; and JSON is less than what a schema can say.
    but = "ignored_auth,positive_data_acceptance,unsupported_method,allow_header_conformance"
    done = subprocess.run(
        [command, "run", f"{served.url}/api/openapi.json", "-H", f"Authorization: Bearer {TOKEN}", "--checks", "all",
         "--exclude-checks", but, "--phases", "examples,coverage,fuzzing", "--max-examples", scale("3", "100"),
         "--max-time", scale("2", "200"),
         "--seed", str(seed), "--warnings", "off",
         "--request-timeout", "120", "--max-response-time", "120"],  # a `wait` in a body may be a minute
        cwd=served.folder, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]
    assert served.process.poll() is None
