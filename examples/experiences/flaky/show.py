"""Starts a server that is busy at each first request, and runs the experience beside this file against it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ropewalk import App

asked: Counter[str] = Counter()


class Flaky(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        asked[self.path] += 1
        number = int(self.path.rpartition("/")[2])
        busy = asked[self.path] == 1
        page = {"number": number} if number == 3 else {"number": number, "title": f"Chapter {number}"}
        body = b"busy" if busy else json.dumps(page).encode()
        self.send_response(503 if busy else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Quiet."""


async def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Flaky)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        async with App("memory") as app:
            address = f"http://127.0.0.1:{server.server_port}"
            done = await app.run(Path(__file__).parent, {"server": address, "numbers": [1, 2, 3, 4]})
    finally:
        server.shutdown()
        server.server_close()
    print("status:", done.status)
    print("asked:", dict(sorted(asked.items())))
    print("errors:", [f"{error['path']}: {error['message']}" for error in done.errors])
    print("titles:", done.final_state["titles"])
    print("report:", done.final_state["report"])


asyncio.run(main())
