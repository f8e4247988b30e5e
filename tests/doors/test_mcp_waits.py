"""Flows that wait, called by clients that can ask their user, in both eras: the user of the client answers."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_project import Served, environment, served

import fork_server

__all__ = ["served"]
pytestmark = pytest.mark.process

SHIP = """\
kind: chain
name: ship
nodes:
  - {id: paid, type: wait, event: paid}
  - {id: ok, type: wait, approval: "Ship ${input.order}?"}
  - {id: up, type: tool, tool: upper, params: {text: "${output.paid} ${output.ok.note} ${output.ok.approved}"}}
"""
MODES = ["legacy", "2026-07-28"]


def client(served: Served, mode: str, answers: list[Any], seen: list[Any]) -> Client:
    """A client of the SDK whose user answers in this order."""

    async def elicit(_: Any, params: Any) -> types.ElicitResult:
        seen.append(params)
        return types.ElicitResult.model_validate(answers.pop(0))

    place = StdioServerParameters(
        command=fork_server.program("ropewalk"), args=["mcp"], cwd=str(served.home), env=environment() or None
    )
    return Client(stdio_client(place), mode=mode, elicitation_callback=elicit)  # type: ignore[arg-type]


def accepted(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


@pytest.mark.parametrize("mode", MODES)
def test_the_user_of_the_client_answers_events_and_approvals(served: Served, mode: str) -> None:
    served.write("flows/ship.yaml", SHIP)

    async def case() -> None:
        seen: list[Any] = []
        answers = [accepted(payload='{"sum": 30}'), accepted(confirm=True, note="fine")]
        async with client(served, mode, answers, seen) as mcp:
            result = await mcp.call_tool("ship", {"order": "7"})
        assert result.structured_content["up"] == '{"SUM":30} FINE TRUE'
        event, approval = (re.sub(r"\s+", " ", asked.message) for asked in seen)
        assert event == "The run waits for the event 'paid'. Its payload?"
        assert approval.startswith(
            "Ship 7? Facts about ship (chain): Calls: at most 1 upper write, no undo, at most 1 "
        )

    asyncio.run(case())


@pytest.mark.parametrize("mode", MODES)
def test_declining_rejects_and_closing_the_form_leaves_the_run_waiting(served: Served, mode: str) -> None:
    nodes = "nodes: [{id: ok, type: wait, approval: Ship it?}, {id: up, type: tool, tool: upper, params: {text: sent}}]"
    served.write("flows/ship.yaml", f"kind: chain\nname: ship\n{nodes}\n")

    async def case() -> None:
        seen: list[Any] = []
        async with client(served, mode, [{"action": "cancel"}, {"action": "decline"}], seen) as mcp:
            waiting = await mcp.call_tool("ship", {})
            about = waiting.meta["ropewalk/error"]
            assert about["kind"] == "Waiting"
            rejected = await mcp.call_tool("resume_run", {"runId": about["runId"]})
            assert rejected.meta["ropewalk/error"]["node"] == "ok"

    asyncio.run(case())
    assert not (served.home / "calls").exists()


def test_a_state_that_names_the_run_of_another_flow_answers_nothing(served: Served) -> None:
    """The state comes from the client: it must not open runs that the call is not about."""
    for name in ("mine", "yours"):
        served.write(
            f"flows/{name}.yaml", f"kind: chain\nname: {name}\nnodes: [{{id: ok, type: wait, approval: {name}?}}]"
        )

    async def case() -> None:
        async with client(served, "2026-07-28", [], []) as mcp:
            first = await mcp.session.call_tool("yours", {}, allow_input_required=True)
            assert isinstance(first, types.InputRequiredResult)
            answers = {"ok": types.ElicitResult(action="accept", content={"confirm": True})}
            for name, arguments in (("mine", {}), ("yours", {"other": 1})):
                with pytest.raises(Exception, match="Invalid or expired requestState"):
                    await mcp.session.call_tool(
                        name, arguments, input_responses=answers, request_state=first.request_state
                    )
            done = await mcp.session.call_tool("yours", {}, input_responses=answers, request_state=first.request_state)
            assert not done.is_error

    asyncio.run(case())
