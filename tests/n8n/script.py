"""What the scripted model says of one task."""

from __future__ import annotations

import json
from typing import Any

TASK = "Every morning fetch a joke over HTTP and post it to Slack"
FOUND: dict[str, Any] = {
    "name": "Joke of the day",
    "nodes": [
        {"id": "every", "type": "nodes-base.scheduleTrigger", "name": "Every morning", "purpose": "starts"},
        {"id": "get", "type": "nodes-base.httpRequest", "name": "Get a joke", "purpose": "fetches"},
        {"id": "post", "type": "nodes-base.slack", "name": "Post it", "purpose": "posts"},
    ],
}
SCHEDULE = {"rule": {"interval": [{"field": "days", "triggerAtHour": 8}]}}
POST = {
    "resource": "message",
    "operation": "post",
    "select": "channel",
    "channelId": {"__rl": True, "mode": "name", "value": "#jokes"},
    "text": "={{ $json.joke }}",
}
CONFIGURED: dict[str, Any] = {
    "nodes": [
        {"id": "every", "parameters": SCHEDULE},
        {"id": "get", "parameters": {"url": "https://example.com/joke"}},
        {"id": "post", "parameters": POST},
    ],
    "connections": [{"from": "every", "to": "get"}, {"from": "get", "to": "post"}],
}
BROKEN: dict[str, Any] = {
    "nodes": [{"id": "every", "parameters": SCHEDULE}, {"id": "get", "parameters": {}}, CONFIGURED["nodes"][2]],
    "connections": [{"from": "every", "to": "get"}, {"from": "gett", "to": "post"}],
}
URL = {"op": "set_parameters", "id": "get", "parameters": {"url": "https://example.com/joke"}}
RELINK = [
    {"op": "disconnect", "connection": {"from": "gett", "to": "post"}},
    {"op": "connect", "connection": {"from": "get", "to": "post"}},
]
WORDS = "# Joke of the day\n\nPosts a joke."


def say(value: Any) -> str:
    return json.dumps(value)


def mended(*operations: dict[str, Any]) -> str:
    return say({"operations": list(operations)})
