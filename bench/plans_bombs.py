"""Programs that want time, memory, depth or output, and random ones, sent to a server that others use meanwhile.

`attack` starts `ropewalk serve` and `ropewalk mcp --http --plans`, sends the programs, and asks for the tools every 50
ms. It prints how each program ended, the slowest answer to others, the processes that are left, and the addresses in
results. It fails if one of them is not as it must be.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx2

import plans_fuzz
from ropewalk.tools.mcp.servers import McpServers

COMMAND = str(Path(sys.executable).with_name("ropewalk"))
TOKEN = "only-for-the-bench"
MOST_SECONDS, MOST_DELAY = 10.0, 0.25
AFTER_A_CALL = "t = now()\n"
TIME = (
    "return 1.5 in range(10**{n})",
    "return sum(range(10**{n}))",
    "return max(x * x for x in range(10**{n}))",
    "x = 0\nwhile True:\n    x += 1",
    "x, *y = lambda x: x\nreturn 1",
    "return list(range(10**{n}))[-1]",
    "return ('a' * 10**{n}).count('b')",
    "return len(str(10**{n}))",
    "return sorted(range(10**{n}), reverse=True)[0]",
    "def f(n):\n    return 1 if n < 2 else f(n - 1) + f(n - 2)\nreturn f({n})",
)
MEMORY = (
    "x = [0]\nfor i in range({n}):\n    x = x + x\nreturn len(x)",
    "x = 'a' * 10**{n}\nreturn len(x)",
    "return len([[0] * 1000 for i in range(10**{n})])",
    "x = {{}}\nfor i in range(10**{n}):\n    x[i] = [i]\nreturn len(x)",
    "import itertools\nreturn len(list(itertools.product(range(10), repeat={n})))",
)
DEPTH = (
    "x = iter([1])\nfor i in range(10**{n}):\n    x = enumerate(x)\nreturn len(list(x))",
    "x = ()\nfor i in range(10**{n}):\n    x = (x,)\nreturn len({{x}})",
    "x = []\nfor i in range(10**{n}):\n    x = [x]\nreturn x",
    "x = {{}}\nfor i in range(10**{n}):\n    x = {{'a': x}}\nreturn str(x)",
    "def f(n):\n    return f(n + 1)\nreturn f({n})",
    "return {deep}",
)
OUTPUT = (
    "return range(10**{n})",
    "x = ['a' * 1000] * 10**{n}\nreturn x",
    "for i in range(10**{n}):\n    print('a' * 1000)",
    "x = [1]\nfor i in range({n}):\n    x = [x, x]\nreturn x",
    "return '{{:>{n}0000000}}'.format(1)",
)


def bombs() -> Iterator[str]:
    """Yield programs of every kind without end, each also after a call, so that it runs in the run."""
    number = 4
    while True:
        for template in (*TIME, *MEMORY, *DEPTH, *OUTPUT):
            deep = "(" * (50 * number) + "1" + ",)" * (50 * number)
            code = template.format(n=number, deep=deep)
            yield code
            yield AFTER_A_CALL + code
        number += 3


class Campaign:
    """The programs that were sent to one server, and what came of them."""

    def __init__(self, pid: int) -> None:
        self.pid, self.busy = pid, 0.0
        self.endings: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.slowest, self.delay, self.addresses = 0.0, 0.0, 0

    def _computed(self) -> float:
        """Return the seconds that the event loop of the server has computed."""
        return int(Path(f"/proc/{self.pid}/task/{self.pid}/schedstat").read_text().split()[0]) / 1e9

    def note(self, code: str, text: str, seconds: float) -> None:
        """Note the answer to a program."""
        status = next((word for word in ("invalid", "failed", "completed", "waiting") if f'"{word}"' in text), "none")
        self.endings[status] += 1
        self.slowest = max(self.slowest, seconds)
        self.addresses += bool(re.search(r" at 0x[0-9a-f]{6}", text))
        if status == "none" or seconds > MOST_SECONDS:
            self.wrong.append(f"{seconds:.1f} s, {text[:200]}: {code!r:.200}")

    async def send(self, programs: list[str], post: Any, others: Any, seconds: float) -> None:
        """Send programs one after another while others ask for the tools."""
        done = asyncio.Event()

        async def ask() -> None:
            while not done.is_set():
                begun, used = time.monotonic(), self._computed()
                await others()
                self.delay = max(self.delay, time.monotonic() - begun)
                self.busy = max(self.busy, self._computed() - used)
                await asyncio.sleep(0.05)

        asking, ends = asyncio.create_task(ask()), time.monotonic() + seconds
        for code in programs:
            if time.monotonic() > ends:
                break
            begun = time.monotonic()
            text = await post(code)
            self.note(code, text, time.monotonic() - begun)
        done.set()
        await asking

    def report(self, name: str) -> bool:
        """Print the campaign; return True if everything is as it must be."""
        print(f"{name}: {dict(self.endings)}, slowest {self.slowest:.1f} s")
        print(f"  others wait at most {self.delay * 1000:.0f} ms, in which the event loop computes at most ", end="")
        print(f"{self.busy * 1000:.0f} ms; addresses {self.addresses}, wrong {len(self.wrong)}")
        for line in self.wrong[:20]:
            print(f"  {line}")
        return not self.wrong and not self.addresses and self.delay <= MOST_DELAY


def children_of(pid: int) -> list[int]:
    """Return the processes below a process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *children_of(int(child))]
    return found


def start(*words: str) -> tuple[subprocess.Popen[str], str]:
    """Start a server in an empty folder and return it with its address."""
    env = {**os.environ, "ROPEWALK_TOKEN": TOKEN, "NO_COLOR": "1"}
    process = subprocess.Popen(
        [COMMAND, *words], cwd=tempfile.mkdtemp(), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if (address := re.search(r"http://\S+", line)) is not None:
            return process, address[0].partition("/?token=")[0]
    raise RuntimeError("the server did not start")


def stop(process: subprocess.Popen[str]) -> int:
    """End a server with SIGTERM; return how many processes are left."""
    below = children_of(process.pid)
    process.terminate()
    process.wait(30)
    return left_of(below)


def left_of(pids: Iterable[int]) -> int:
    """Return how many of the processes are left after some seconds."""
    ends = time.monotonic() + 5
    while (left := sum(Path(f"/proc/{pid}").exists() for pid in pids)) and time.monotonic() < ends:
        time.sleep(0.05)
    return left


async def over_http(programs: list[str], seconds: float) -> bool:
    """Send programs to `ropewalk serve`."""
    process, url = start("serve", "--port", "0", "--store", "memory")
    campaign = Campaign(process.pid)
    async with httpx2.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as client:

        async def post(code: str) -> str:
            return str((await client.post("/api/plans/run", json={"code": code})).text)

        await campaign.send(programs, post, lambda: client.get("/api/tools"), seconds)
    is_right, left = campaign.report("serve"), stop(process)
    print(f"  processes left: {left}")
    return is_right and not left


async def over_mcp(programs: list[str], seconds: float) -> bool:
    """Send programs to `ropewalk mcp --http --plans`."""
    process, url = start("mcp", "--http", "127.0.0.1:0", "--plans", "--store", "memory")
    campaign = Campaign(process.pid)
    async with McpServers() as mcp:
        mcp.add("here", {"url": url, "headers": {"Authorization": f"Bearer {TOKEN}"}, "timeout": 60})
        await mcp.connect("here")

        async def post(code: str) -> str:
            result = await mcp.call_tool("here", "run_plan", {"code": code})
            return json.dumps(result.structured_content)

        others = {"request": "anything"}
        await campaign.send(programs, post, lambda: mcp.call_tool("here", "find_tools", others), seconds)
    is_right, left = campaign.report("mcp"), stop(process)
    print(f"  processes left: {left}")
    return is_right and not left


def attack(count: int, random_count: int, seed: int, seconds: float) -> bool:
    """Send programs that want too much, and random ones, to both servers; return True if all ended as they must."""
    source, chance = bombs(), random.Random(seed)
    programs = [next(source) for _ in range(count)] + [plans_fuzz.program(chance) for _ in range(random_count)]
    serve = asyncio.run(over_http(programs, seconds))
    return asyncio.run(over_mcp(programs, seconds)) and serve
