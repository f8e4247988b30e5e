"""A server in plain JSON-RPC over stdio that counts its starts: `counted.py FILE [TOOL ...]` adds a line to FILE and
offers these tools, unless there is a file `down`. A tool `read_NAME` says that it only reads, and one `secret` shows
the variable API_TOKEN."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def said(id: Any, **body: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": id, **body}), flush=True)


def tool(name: str) -> dict[str, Any]:
    description = os.environ.get("API_TOKEN", "") if name == "secret" else name
    hints = {"annotations": {"readOnlyHint": True}} if name.startswith("read_") else {}
    return {"name": name, "description": description, "inputSchema": SCHEMA, **hints}


with Path(sys.argv[1]).open("a") as file:
    file.write("started\n")
if Path("down").exists():
    sys.exit("no database")
for line in sys.stdin:
    message = json.loads(line)
    method, id = message["method"], message.get("id")
    if method == "initialize":
        info = {"name": "counted", "version": "1"}
        said(id, result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        said(id, result={"tools": [tool(name) for name in sys.argv[2:]]})
    elif method == "tools/call":
        said(id, result={"content": [{"type": "text", "text": "done"}]})
    elif id is not None:
        said(id, error={"code": -32601, "message": "unknown method"})
