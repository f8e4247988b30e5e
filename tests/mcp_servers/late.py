"""A server in plain JSON-RPC over stdio that is slow to end: `late.py FILE`. Half a second after its stdin has closed
it makes FILE, unless it is killed before. Its tool `never` gives no answer, `hang` stops listening, too, and starts a
process that ignores SIGTERM, as it does itself from then on, and `echo` answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("never", "hang", "echo")]
IGNORES = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"


def said(id: Any, **body: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": id, **body}), flush=True)


def serve() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        method, id, params = message["method"], message.get("id"), message.get("params") or {}
        if method == "initialize":
            info = {"name": "late", "version": "1"}
            said(id, result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info})
        elif method == "tools/list":
            said(id, result={"tools": TOOLS})
        elif method == "tools/call" and params["name"] == "echo":
            said(id, result={"content": [{"type": "text", "text": "here"}]})
        elif method == "tools/call" and params["name"] == "hang":
            hang(Path(sys.argv[1]))


def hang(file: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", IGNORES], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    written = file.with_suffix(".new")
    written.write_text(f"{os.getpid()} {child.pid}")
    written.rename(file)
    time.sleep(600)


serve()
time.sleep(0.5)
Path(sys.argv[1]).touch()
