"""Waits of runs as questions to the user of a client: an approval or an awaited event as an elicitation.

The user sees what the flow asks, and answers with a form. Declining rejects an approval; closing the form leaves the
run waiting. A question of an MCP server that the flow calls is asked with the server's own form, and the server gets
the answer as it is, declined and closed ones too.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson

from ...app.facts import approval_text
from ...errors import InvalidInput, NotWaiting, RunEnded
from ...journal.address import run_sync_in_thread
from ...problems import join_problems

if TYPE_CHECKING:
    from ...app.app import App

ELICIT: Final = "elicitation/create"
BY: Final = "mcp"
"""Who answers, in the record of the run."""


async def questions_of(app: App, run_id: str, waits: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the elicitation requests for the waits of a run."""

    # An approval says what the flow may do.
    facts = await run_sync_in_thread(app.store, lambda: app.runs.facts(run_id, [dict(wait) for wait in waits.values()]))
    return {path: _question_of(wait, approval_text(facts)) for path, wait in waits.items()}


def _question_of(wait: Mapping[str, Any], facts: str) -> dict[str, Any]:
    if "approval" in wait:
        message = f"{wait['approval']}\n\n{facts}" if facts else str(wait["approval"])
        schema = {
            "type": "object",
            "properties": {
                "confirm": {"type": "boolean", "title": "Approve", "description": "False rejects."},
                "note": {"type": "string", "title": "Note", "description": "A comment for the record."},
            },
            "required": ["confirm"],
        }
    elif "question" in wait:
        return {"method": ELICIT, "params": _form_of_server(wait["question"])}
    else:
        message = f"The run waits for the event {wait['event']!r}. Its payload?"
        payload = {"type": "string", "title": "Payload", "description": "JSON, or any other text."}
        schema = {"type": "object", "properties": {"payload": payload}}
    return {"method": ELICIT, "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def _form_of_server(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an elicitation with which a server behind the flow asks the client's user."""
    message = f"{question['server']} asks: {question['message']}"
    if "url" in question:
        return {"mode": "url", "message": message, "url": question["url"]}
    return {"mode": "form", "message": message, "requestedSchema": question["schema"]}


def for_older_client(path: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of an elicitation for a client of 2025-11-25, where an address needs an id."""
    return {**params, "elicitationId": path} if params["mode"] == "url" else params


async def open_waits(app: App, run_id: str) -> dict[str, dict[str, Any]]:
    """Return the unanswered waits of a run by path."""
    waits: list[dict[str, Any]] = await run_sync_in_thread(app.store, lambda: app.runs.waiting(run_id))
    return {str(wait["path"]): wait for wait in waits}


async def answer_waits(app: App, run_id: str, responses: Mapping[str, Any]) -> bool:
    """Give the answers of a client's user to the waits of a run."""

    # Answers that fit no wait are ignored.
    waits = await open_waits(app, run_id)
    answered = False
    for path, response in responses.items():
        wait = waits.get(path)
        if wait is not None and isinstance(response, Mapping):
            answered |= await run_sync_in_thread(app.store, partial(_answer, app, run_id, wait, response))
    return answered


def _answer(app: App, run_id: str, wait: Mapping[str, Any], response: Mapping[str, Any]) -> bool:
    action, content = response.get("action"), response.get("content") or {}
    try:
        if "approval" in wait:
            decision = content.get("confirm") if action == "accept" else False
            if action not in ("accept", "decline") or not isinstance(decision, bool):
                return False
            note = content.get("note")
            app.runs.approve(
                run_id, wait["path"], approved=decision, by=BY, note=note if isinstance(note, str) else None
            )
            return True
        if "question" in wait:
            is_url = "url" in wait["question"]
            app.runs.send(run_id, wait["event"], (is_url or content) if action == "accept" else action)
            return True
        if action != "accept":
            return False
        app.runs.send(run_id, wait["event"], _payload(content.get("payload")), id=f"{wait['path']} {wait['since']}")
        return True
    except (NotWaiting, RunEnded):  # somebody else was faster
        return False
    except InvalidInput as error:  # the user of the client gave an answer that the form does not allow
        from mcp import MCPError
        from mcp_types import INVALID_PARAMS

        raise MCPError(INVALID_PARAMS, join_problems(error.problems)) from error


def _payload(text: Any) -> Any:
    """Return what a user typed as JSON, or else as the text itself."""
    try:
        return orjson.loads(text) if isinstance(text, str) else text
    except ValueError:
        return text
