"""The service that sends answers and refunds, over HTTP: `python mail.py [PORT]`. It prints each request."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Mail(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.record(body)
        answer = json.dumps({"sent": True, **body}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def record(self, body):
        print(self.path, json.dumps(body), flush=True)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8437), Mail)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
