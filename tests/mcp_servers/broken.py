"""A server whose tools fail after a line on stderr: `report` gives an error result, `refuse` an error with data."""

from __future__ import annotations

import json
import sys
from typing import Any


def answer(id: Any, **body: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": id, **body}), flush=True)


def serve() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        method, id = message["method"], message.get("id")
        if method == "initialize":
            info = {"name": "broken", "version": "1"}
            answer(id, result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info})
        elif method == "tools/list":
            names = ("report", "refuse")
            answer(id, result={"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]})
        elif method == "tools/call":
            print("disk quota exceeded at /var/lib/index", file=sys.stderr, flush=True)
            if message["params"]["name"] == "report":
                answer(id, result={"content": [{"type": "text", "text": "no luck"}], "isError": True})
            else:
                answer(id, error={"code": -32000, "message": "no luck", "data": {"table": "orders", "row": 2**70}})


serve()
