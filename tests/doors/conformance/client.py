"""What the conformance tool starts as a client: it hands the URL to the test, whose process has our client in it
(starting Python and importing the SDK once per scenario would take minutes), and prints what that says."""

import json
import os
import socket
import sys

names = ("MCP_CONFORMANCE_SCENARIO", "MCP_CONFORMANCE_PROTOCOL_VERSION", "MCP_CONFORMANCE_CONTEXT")
with socket.socket(socket.AF_UNIX) as line:
    line.connect(os.environ["ROPEWALK_CONFORMANCE_SOCKET"])
    line.sendall(json.dumps({"url": sys.argv[-1], **{name: os.environ.get(name) for name in names}}).encode() + b"\n")
    answer = json.loads(line.makefile().readline())
print(answer["said"])
sys.exit(answer["code"])
