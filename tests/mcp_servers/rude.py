"""Servers that behave badly, in plain JSON-RPC over stdio: `rude.py MANNER`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any


def answer(id: Any, **body: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": id, **body}), flush=True)


def lists(manner: str, params: dict[str, Any]) -> dict[str, Any]:
    tool = {"name": "echo", "inputSchema": {"type": "object"}}
    if manner == "endless":
        return {"tools": [tool], "nextCursor": str(int(params.get("cursor", "0")) + 1)}
    if manner == "circular":
        return {"tools": [tool], "nextCursor": "again"}
    return {"tools": [tool]}


def serve(manner: str) -> None:
    first = True
    for line in sys.stdin:
        message = json.loads(line)
        method, id = message["method"], message.get("id")
        if manner == "hangup" and first and method != "initialize":
            sys.exit("expected initialize")
        first = False
        if method == "initialize":
            version = "1999-01-01" if manner == "ancient" else "2025-06-18"
            info = {"name": manner, "version": "1"}
            answer(id, result={"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
        elif method == "tools/list":
            answer(id, result=lists(manner, message.get("params") or {}))
        elif method == "tools/call":
            call(manner, id)
        elif id is not None and manner != "ignore":
            answer(id, error={"code": -32601, "message": "Method not found"})


def call(manner: str, id: Any) -> None:
    if manner == "nonsense":
        answer(id, result={"content": "not a list"})
    elif manner.startswith("refuses"):
        answer(id, error={"code": int(manner.removeprefix("refuses")), "message": "no"})
    elif manner == "deaf":
        sys.stdin.close()
        time.sleep(600)
    elif manner == "stuck":
        time.sleep(600)
    elif manner == "family":
        # The relative inherits our stdout, and so keeps the pipe open when we are gone.
        relative = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        answer(id, result={"content": [{"type": "text", "text": f"{os.getpid()} {relative.pid}"}]})
        time.sleep(600)
    else:
        answer(id, result={"content": [{"type": "text", "text": manner}]})


def main(manner: str) -> None:
    if manner == "exit":
        sys.exit("cannot start: no database")
    if manner == "silent":
        time.sleep(600)
    if manner == "banner":
        print("Server running on stdio\n\n{not json", flush=True)
    serve(manner)


if __name__ == "__main__":
    main(sys.argv[1])
