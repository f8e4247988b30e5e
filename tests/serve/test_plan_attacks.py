"""Programs that attack `ropewalk serve` and `ropewalk mcp --http --plans` fail alone: the server answers others."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

import fork_server
from patience import BOUND, wait_until
from ropewalk.tools.mcp.servers import McpServers

from .server import COMMAND, TOKEN, Served, serve

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="processor time is measured on Linux only"),
]
LIMITS = "[plans]\ncpu_seconds = 0.4\nwall_seconds = 600\n"
ATTACKS = {
    "a search in a long range": "return 1.5 in range(10**18)",
    "the same after a call": "t = now()\nreturn [1.5 in range(10**18), t]",
    "nested iterators": "x = iter([1])\nfor i in range(100000):\n    x = enumerate(x)\nreturn len(list(x))",
    "hash of a nested tuple": "x = ()\nfor i in range(300000):\n    x = (x,)\nreturn len({x})",
    "unpacking a lambda": "x, *y = lambda x: x\nreturn 1",
    "a long range as a result": "t = now()\nreturn range(10**15)",
    "a call for each number of a long range": "for i in range(10**15):\n    t = now()\nreturn 1",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    yield from serve(tmp_path_factory.mktemp("attacked"), settings=LIMITS)


def while_answering(served: Served, attack: Any) -> Any:
    """Return what the attack gives; the server answers another request before that, if the attack takes long."""
    given: list[Any] = []
    thread = threading.Thread(target=lambda: given.append(attack()))
    thread.start()
    assert served.get("/api/tools").status_code == 200
    thread.join()
    assert served.get("/api/tools").status_code == 200
    return given[0]


@pytest.mark.parametrize("operation", ["check", "run"])
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_ends_as_an_invalid_or_failed_program(served: Served, operation: str, name: str) -> None:
    body = {"code": ATTACKS[name]}
    answered = while_answering(served, lambda: served.post(f"/api/plans/{operation}", body, timeout=BOUND))
    assert answered.status_code == 200, answered.text
    result = answered.json()
    assert result.get("status") in (("invalid", "failed") if operation == "run" else (None,)), result
    assert " at 0x" not in answered.text


def test_a_document_cannot_say_that_a_person_wrote_it(served: Served) -> None:
    body = {"document": {"kind": "plan", "code": "x = 0\nwhile True:\n    x += 1"}, "wait": 60}
    answered = while_answering(served, lambda: served.post("/api/runs", body, timeout=BOUND))
    assert "0.4 seconds of processor time" in answered.text  # which only a child has


def test_sigterm_ends_the_server_while_a_program_burns(tmp_path: Path) -> None:
    serving = serve(tmp_path, settings="[plans]\ncpu_seconds = 600\nwall_seconds = 600\n")
    served = next(serving)

    def attack() -> None:
        with suppress(httpx2.HTTPError):  # the server ends the connection
            served.post("/api/plans/run", {"code": ATTACKS["unpacking a lambda"]}, timeout=600)

    thread = threading.Thread(target=attack, daemon=True)
    thread.start()
    children = wait_until(lambda: burning(served.process.pid) or not thread.is_alive())
    assert isinstance(children, list)
    served.process.send_signal(signal.SIGTERM)
    served.process.wait(BOUND)
    wait_until(lambda: not any(Path(f"/proc/{pid}/fd").exists() for pid in children))
    thread.join()
    serving.close()


def burning(server: int) -> list[int]:
    """Return the processes that a forker of a server has."""
    forkers = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    found: list[int] = []
    for task in Path(f"/proc/{server}/task").iterdir():
        forkers += (task / "children").read_text().split()
    for forker in set(forkers):
        found += map(int, Path(f"/proc/{forker}/task/{forker}/children").read_text().split())
    return found


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "ropewalk.toml").write_text(LIMITS)
    env = {"ROPEWALK_TOKEN": TOKEN, "NO_COLOR": "1", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    process = fork_server.Popen(
        [COMMAND, "mcp", "--http", "127.0.0.1:0", "--plans"],
        cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    line = next(line for line in process.stderr if line.startswith("MCP server at "))
    reader = threading.Thread(target=process.stderr.read, daemon=True)
    reader.start()
    try:
        yield line.split()[-1]
    finally:
        process.terminate()
        process.wait(BOUND)
        reader.join(BOUND)
        process.stderr.close()


def test_attacks_over_mcp_end_as_failed_programs(url: str) -> None:
    async def attack() -> dict[str, str]:
        async with McpServers() as mcp:
            mcp.add("here", {"url": url, "headers": {"Authorization": f"Bearer {TOKEN}"}, "timeout": BOUND})
            await mcp.connect("here")

            async def call(name: str, **arguments: str) -> str:
                return str(await mcp.call_tool("here", name, arguments))

            attacks = {name: asyncio.create_task(call("run_plan", code=code)) for name, code in ATTACKS.items()}
            assert "stubs" in await call("find_tools", request="anything")
            return {name: await task for name, task in attacks.items()}

    for name, text in asyncio.run(attack()).items():
        assert "'status': 'invalid'" in text or "'status': 'failed'" in text, (name, text)
        assert " at 0x" not in text
