"""Tools that pay and answer with results that cannot be used, and a ledger that counts the payments."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pydantic

from ropewalk import Tool, tool

CHAIN = {"errorStrategy": "retry", "maxRetries": 3, "retryDelay": 1}
RECEIPT = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


class Ledger:
    """Counts effects in a file, so that those of other processes count as well."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def pay(self) -> None:
        with self.path.open("a") as file:
            file.write("paid\n")

    @property
    def payments(self) -> int:
        return len(self.path.read_text().splitlines())


class Unwritable(pydantic.BaseModel):
    value: Any = None

    @pydantic.field_serializer("value")
    def refuse(self, value: Any) -> Any:
        raise ValueError("this model does not want to be written")


@dataclasses.dataclass
class Holder:
    value: object


def local_tools(ledger: Ledger) -> dict[str, Any]:
    """Local tools by what is wrong with their results."""

    def wrong_type() -> dict:  # type: ignore[type-arg]
        ledger.pay()
        return "paid"  # type: ignore[return-value]

    async def wrong_type_async() -> dict:  # type: ignore[type-arg]
        ledger.pay()
        return "paid"  # type: ignore[return-value]

    async def not_a_number() -> float:
        ledger.pay()
        return float("nan")

    async def within_itself() -> Any:
        ledger.pay()
        found: list[Any] = []
        found.append(found)
        return found

    async def unwritable() -> Unwritable:
        ledger.pay()
        return Unwritable(value=1)

    def holds_a_lock() -> dict[str, Any]:
        ledger.pay()
        return {"inner": Holder(object())}

    async def chunks() -> AsyncIterator[Any]:
        ledger.pay()
        yield object()

    found = (
        wrong_type, wrong_type_async, not_a_number, within_itself, unwritable, holds_a_lock, chunks,
    )  # fmt: skip
    for function in found:
        tool(function)
    return {function.__name__: function for function in found}


def repeatable(ledger: Ledger, hint: str) -> Tool:
    """A local tool with a wrong result, that may be called again."""

    def look() -> str:
        ledger.pay()
        return "seen"

    return Tool("look", "", {"type": "object"}, RECEIPT, annotations={hint: True}, handler=look)


class Provider(ThreadingHTTPServer):
    """A provider that pays, and answers 200 with what the last part of the address says."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        super().__init__(("127.0.0.1", 0), _Answers)

    @property
    def config(self) -> dict[str, Any]:
        tools = [
            {"name": name, "description": "", "input_schema": {"type": "object"}, "output_schema": RECEIPT}
            for name in BODIES
        ]
        return {"url": f"http://127.0.0.1:{self.server_address[1]}", "tools": tools}


BODIES: dict[str, tuple[bytes, dict[str, str]]] = {
    "not_json": (b"<html>paid</html>", {}),
    "wrong_type": (json.dumps({"id": "seven"}).encode(), {}),
    "cut": (b'{"id": 7', {"Content-Length": "100"}),
    "not_gzip": (b'{"id": 7}', {"Content-Encoding": "gzip"}),
}


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the head and the body are two packets: 40 ms between them
    server: Provider

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.ledger.pay()
        body, headers = BODIES[self.path.rpartition("/")[2]]
        self.send_response(200)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


MODULES = {
    "pay.mjs": "import { appendFileSync } from 'node:fs'\n"
    "export default (args) => { appendFileSync(process.env.LEDGER, 'paid\\n'); return %s }\n",
    "pay.py": "import os\n\ndef run(args):\n    open(args['_env']['LEDGER'], 'a').write('paid\\n')\n    return %s\n",
}
"""Tool modules of experiences by language; `%s` is what they return."""
EXPERIENCE = """\
name: payments
version: 0.1.0
state: {schema: {receipt: {type: number}}}
runtime: {env: [LEDGER]}
graph:
  nodes:
    - id: pay
      kind: tool
      impl: ./%s
      writes: [receipt]
      on_error: {policy: retry, attempts: 4, base_ms: 1}
  edges: []
"""


def experience(folder: Path, file: str, returns: str) -> Path:
    """A directory with one module, whose node is tried four times."""
    folder.mkdir()
    (folder / file).write_text(MODULES[file] % returns)
    (folder / "experience.yaml").write_text(EXPERIENCE % file)
    return folder
