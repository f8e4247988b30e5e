"""A server in plain JSON-RPC over stdio for tests that look at its process.

It starts in a tenth of the time of `odd.py`, whose tools of the same names do the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

TOOLS = ("pid", "slow", "grandchild", "die", "environment", "descriptors")
STUBBORN = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(id: Any, value: object) -> None:
    send(id=id, result={"content": [{"type": "text", "text": str(value)}]})


def call(id: Any, name: str, args: dict[str, Any], token: Any) -> None:
    if name == "die":
        print("\n".join(f"frame {number}" for number in range(args.get("frames", 0))), file=sys.stderr)
        print("last \x1b[31mwords\x1b[0m " + os.environ.get("TOKEN", ""), file=sys.stderr, flush=True)
        os._exit(args.get("code", 3))
    if name == "slow":  # and never answers
        note = {"progressToken": token, "progress": 0, "total": 1, "message": str(os.getpid())}
        send(method="notifications/progress", params=note)
        return
    if name == "environment":
        send(id=id, result={"content": [], "structuredContent": dict(os.environ)})
        return
    if name == "descriptors":
        answer(id, sorted(int(fd) for fd in os.listdir("/proc/self/fd")))
        return
    answer(id, os.getpid() if name == "pid" else subprocess.Popen([sys.executable, "-c", STUBBORN], stderr=-1).pid)


for line in sys.stdin:
    message = json.loads(line)
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method == "initialize":
        info = {"name": "mortal", "version": "1"}
        send(id=id, result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        send(id=id, result={"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]})
    elif method == "tools/call":
        call(id, params["name"], params.get("arguments") or {}, (params.get("_meta") or {}).get("progressToken"))
    elif id is not None:
        send(id=id, error={"code": -32601, "message": "Method not found"})
