"""Waits of runs as questions to the user of a client: an approval or an awaited event as an elicitation.

The user sees what the flow asks, and answers with a form. Declining rejects an approval; closing the form leaves the
run waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson

from ...app.facts import approval_text
from ...errors import NotWaiting, RunEnded
from ...journal.address import run_sync_in_thread

if TYPE_CHECKING:
    from ...app.app import App

ELICIT: Final = "elicitation/create"
BY: Final = "mcp"
"""Who answers, in the record of the run."""


async def questions_of(app: App, run_id: str, waits: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the elicitation requests for the waits of a run. An approval says what the flow may do.

    Args:
        app: The app of the run.
        run_id: The run.
        waits: Its waits by path, as `open_waits` gives them.

    Returns:
        The requests by the path of the wait.
    """
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
    else:
        message = f"The run waits for the event {wait['event']!r}. Its payload?"
        payload = {"type": "string", "title": "Payload", "description": "JSON, or any other text."}
        schema = {"type": "object", "properties": {"payload": payload}}
    return {"method": ELICIT, "params": {"mode": "form", "message": message, "requestedSchema": schema}}


async def open_waits(app: App, run_id: str) -> dict[str, dict[str, Any]]:
    """Return the unanswered waits of a run by path.

    Args:
        app: The app of the run.
        run_id: The run.
    """
    waits: list[dict[str, Any]] = await run_sync_in_thread(app.store, lambda: app.runs.waiting(run_id))
    return {str(wait["path"]): wait for wait in waits}


async def answer_waits(app: App, run_id: str, responses: Mapping[str, Any]) -> bool:
    """Give the answers of a client's user to the waits of a run. Answers that fit no wait are ignored.

    Args:
        app: The app of the run.
        run_id: The run.
        responses: The results of elicitations by the path of the wait.

    Returns:
        True if a wait was answered.
    """
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
        if action != "accept":
            return False
        app.runs.send(run_id, wait["event"], _payload(content.get("payload")), id=f"{wait['path']} {wait['since']}")
        return True
    except (NotWaiting, RunEnded):  # somebody else was faster
        return False


def _payload(text: Any) -> Any:
    """Return what a user typed as JSON, or else as the text itself."""
    try:
        return orjson.loads(text) if isinstance(text, str) else text
    except ValueError:
        return text
