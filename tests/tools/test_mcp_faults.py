"""MCP servers with one fault each, as a toolbox meets them: bounded logs, named tools, answers that cannot be read."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from typing import Any

import pytest

from ropewalk import Runner, Toolbox
from ropewalk.errors import ToolTimeout
from tiers import Scale

from .mcp_lab import SERVERS, forked, python, servers

sys.path.insert(0, str(SERVERS))
from faulty_http import ANSWERS, REFUSALS, serving

pytestmark = pytest.mark.process

sys.path.remove(str(SERVERS))

HEARD = {
    # at the first request
    "unauthorised": "HTTP 401 Unauthorized from .*; a key in `headers` is probably missing",
    "forbidden": "HTTP 403 Forbidden from .*; a key in `headers` is probably missing",
    "not_found": "HTTP 404 Not Found from http://.*/not_found.*; the path of an MCP server is often /mcp",
    "broken": "HTTP 500 Internal Server Error from http",
    "busy": "HTTP 429 Too Many Requests",
    "page": "Unexpected content type: text/html",
    "elsewhere": "Redirect to http://127.0.0.1:1/there not followed",
    "no_json": "its answer cannot be read: Invalid JSON: key must be a string.* it sent: b'{not json'",
    "silent": "did not finish the handshake within 2 s",
    # in a call
    "no_json_later": "tool 'go': its answer cannot be read: Invalid JSON: key must be a .* it sent: b'{not json'",
    "empty": "tool 'go': its answer cannot be read: Invalid JSON: EOF while parsing a value",
    "null_result": "tool 'go': its answer cannot be read: result: Input should be an object; it sent: {'jsonrpc'",
    "text_error": "tool 'go': its answer cannot be read: result: Field required; it sent: {'jsonrpc'",
    "deep": "tool 'go': its answer cannot be read: Invalid JSON: recursion limit exceeded",
    "accepted": "server answered a request with 202 Accepted",
    "unauthorised_later": "tool 'go': HTTP 401 Unauthorized from http[^ ]*/unauthorised_later",
    "no_json_event": "tool 'go': its answer cannot be read: Invalid JSON: key must be a .* it sent: '{not json'",
    "null_event": "tool 'go': its answer cannot be read: result: Input should be an object",
    "cut": "lost the connection to .*: SSE stream ended without a response",
    "silent_later": "gave no answer within 2 s",
    "events": "fine",
}


@pytest.mark.campaign("faults")
def test_faults_of_servers_over_http_are_named_and_harm_no_other(
    caplog: pytest.LogCaptureFixture, scale: Scale
) -> None:
    # Each silent one takes its two seconds.
    heard = {fault: HEARD[fault] for fault in HEARD if scale(not fault.startswith("silent"), True)}
    assert sorted(HEARD) == sorted([*REFUSALS, *ANSWERS, "silent", "silent_later", "cut"])

    async def case(url: str) -> None:
        def config(fault: str) -> dict[str, Any]:
            seconds = 2 if fault.startswith("silent") else 60
            return {"url": url + fault, "timeout": seconds, "connect_timeout": seconds}

        async with servers(**{fault: config(fault) for fault in heard}) as mcp:
            await mcp.connect()

            async def called(fault: str, tries: int = 3) -> str:
                try:
                    return str((await mcp.call_tool(fault, "go")).content[0].text)
                except Exception as error:  # noqa: BLE001 - what it says is looked at
                    if "ReadError" in str(error) and tries > 1:  # a busy machine: not the fault that was asked for
                        return await called(fault, tries - 1)
                    return str(error)

            said = dict(zip(heard, await asyncio.gather(*map(called, heard)), strict=True))
            ours = {fault: text for fault, text in said.items() if fault != "events"}
            assert {f: text for f, text in ours.items() if not text.startswith(f"MCP server {f!r}")} == {}
            assert {f: text for f, text in said.items() if not re.search(HEARD[f], text)} == {}

    with caplog.at_level(logging.INFO), serving() as url:
        asyncio.run(case(url))
    assert [record for record in caplog.records if record.exc_info] == []


def test_what_the_sdk_logs_about_a_flood_is_bounded_and_names_the_server(caplog: pytest.LogCaptureFixture) -> None:
    async def case() -> None:
        async with servers(loud=python("faulty.py", "progress_flood", timeout=120)) as mcp:
            assert (await mcp.call_tool("loud", "go", on_progress=lambda event: None)).content[0].text == "done"

    with caplog.at_level(logging.INFO):
        asyncio.run(asyncio.wait_for(case(), 150))
    about = [record for record in caplog.records if "Failed to validate notification" in record.getMessage()]
    assert 1 <= len(about) <= 5  # of 10,000 malformed ones
    assert all(record.getMessage().startswith("MCP server 'loud': ") for record in about)
    assert len(caplog.records) <= 10
    assert not any(record.exc_info for record in caplog.records)


def test_the_sdks_records_about_other_clients_stay_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    async def case() -> None:
        async with servers(odd=forked("odd.py")) as mcp:
            await mcp.connect()

    asyncio.run(case())
    for _ in range(20):
        logging.getLogger("client").warning("of somebody else")
    assert [record.getMessage() for record in caplog.records].count("of somebody else") == 20


def test_a_malformed_tool_is_left_out_by_name_and_its_server_works() -> None:
    async def case() -> None:
        lame = {name: python("faulty.py", name) for name in ("odd_tools", "half_tools")}
        async with Toolbox(mcp=lame) as toolbox:
            assert {id: why.partition(": ")[2] for id, why in toolbox.failures.items()} == {
                "odd_tools:wrong_type": "inputSchema.type: Input should be 'object'",
                "odd_tools:no_object": "inputSchema.type: Input should be 'object'",
                "odd_tools:bad_hint": "annotations.readOnlyHint: Input should be a valid boolean",
                "odd_tools:go": "",
                "half_tools:unschemed": "inputSchema: Input should be a valid dictionary or instance of InputSchema",
                "half_tools:#3": "name: Field required",
                "half_tools:#4": "Input should be a valid dictionary or instance of Tool",
                "half_tools:#5": "Input should be a valid dictionary or instance of Tool",
            }
            assert toolbox.failures["odd_tools:go"] == "tool 'odd_tools:go' is listed twice"
            for id in ("odd_tools:go", "half_tools:go"):
                assert (await Runner(toolbox).run(id, {})).structured == "fine"

    asyncio.run(case())


@pytest.mark.parametrize("fault", ["null_result", "deep", "in_lines", "text_error"])
def test_an_unreadable_answer_is_a_failure_that_keeps_what_came_and_no_timeout(fault: str) -> None:
    async def case() -> None:
        async with Toolbox(mcp={"s": python("faulty.py", fault, timeout=100)}) as toolbox:
            with pytest.raises(Exception, match="its answer cannot be read") as failure:
                await Runner(toolbox).run("s:go", {})
            assert not isinstance(failure.value, ToolTimeout)
            assert '"jsonrpc"' in failure.value.result.text  # type: ignore[attr-defined]
            # The connection is as good as before.
            assert toolbox.failures == {}
            with pytest.raises(Exception, match="its answer cannot be read"):
                await Runner(toolbox).run("s:go", {})

    asyncio.run(case())


def test_the_handshake_of_2026_has_the_servers_time_and_not_the_sdks(monkeypatch: pytest.MonkeyPatch) -> None:
    import mcp.client.session

    # It is 10 s in the SDK; a server that needs longer is as slow here in proportion.
    monkeypatch.setattr(mcp.client.session, "DISCOVER_TIMEOUT_SECONDS", 0.01)

    async def case() -> None:
        async with servers(odd=forked("odd.py", mode="2026-07-28", connect_timeout=60)) as mcp:
            await mcp.connect("odd")
            assert mcp.failures == {}

    asyncio.run(case())
