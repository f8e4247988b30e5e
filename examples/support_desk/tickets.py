"""The tickets: an MCP server over standard input and output, written by hand so that it starts at once."""

import json
import sys
from pathlib import Path

FILE = Path(__file__).parent / "tickets.json"
TICKET = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("id", "customer", "text", "status")}
    | {"paid": {"type": "number"}},
    "required": ["id", "customer", "text", "paid", "status"],
}
ID = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
CUSTOMER = {"type": "object", "properties": {"customer": {"type": "string"}}, "required": ["customer"]}
COUNT = {"type": "object", "properties": {"tickets": {"type": "integer"}}, "required": ["tickets"]}
TOOLS = {
    "get": ("Read a ticket.", ID, TICKET, True),
    "count": ("Count the tickets of a customer.", CUSTOMER, COUNT, True),
    "close": ("Close a ticket.", ID, TICKET, False),
}


def call(name, arguments):
    tickets = json.loads(FILE.read_text())
    if name == "count":
        return {"tickets": sum(ticket["customer"] == arguments["customer"] for ticket in tickets.values())}
    ticket = tickets[arguments["id"]]
    if name == "close":
        ticket["status"] = "closed"
        FILE.write_text(json.dumps(tickets, indent=2) + "\n")
    return ticket


def answer(method, params):
    if method == "initialize":
        server = {"name": "tickets", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {
            "tools": [
                {
                    "name": name,
                    "description": text,
                    "inputSchema": takes,
                    "outputSchema": gives,
                    "annotations": {"readOnlyHint": reads},
                }
                for name, (text, takes, gives, reads) in TOOLS.items()
            ]
        }
    if method == "tools/call":
        try:
            value = call(params["name"], params["arguments"])
        except KeyError as missing:
            return {"isError": True, "content": [{"type": "text", "text": f"there is no {missing}"}]}
        return {"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value}
    return {} if method == "ping" else None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = answer(message["method"], message.get("params") or {})
    unknown = {"error": {"code": -32601, "message": "Method not found"}}
    found = unknown if result is None else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **found}), flush=True)
