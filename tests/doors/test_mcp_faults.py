"""A gateway before servers of which each has one fault (`faulty.py`): the others keep working, the fault is named, no
process is left."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

import pytest
from mcp_project import Served, served

from patience import wait_until
from ropewalk.tools.mcp.requests import ServerRefused
from ropewalk.tools.mcp.servers import McpServers
from tools.mcp_lab import alive

pytestmark = pytest.mark.process

__all__ = ["served"]

FAULTY = Path(__file__).parents[1] / "mcp_servers" / "faulty.py"

# What a client hears of a call of `go`, by the fault of its server: a result, a result with isError, a protocol error.
OK, ERROR, REFUSED = "ok", "error", "refused"
NO_ANSWER = "gave no answer within 3 s and was cancelled"
UNREADABLE = "tool 'go': its answer cannot be read: "
HEARD: dict[str, tuple[str, str]] = {
    # at the start
    "exit": (ERROR, "exited with code 1; its stderr ends with:\nno harbour at this address"),
    "banner": (OK, "fine"),
    "junk_at_start": (ERROR, "printed 16 MiB that are not JSON-RPC, and no message"),
    "family": (OK, "fine"),
    "stubborn": (OK, "fine"),
    "silent": (ERROR, "did not finish the handshake within 3 s"),
    "silent_handshake": (ERROR, "did not finish the handshake within 3 s"),
    "ancient": (ERROR, "Unsupported protocol version from the server: 1999-01-01"),
    # in a list
    "silent_list": (ERROR, "did not finish the handshake within 3 s"),
    "death_in_list": (ERROR, "exited with code 5"),
    "many": (OK, "fine"),
    "crowd": (ERROR, "it lists more than 10,000 tools"),
    "crowd_of_prompts": (OK, "fine"),
    "pages": (OK, "fine"),
    "same_page": (OK, "fine"),
    "endless_pages": (ERROR, "its list of tools does not end"),
    "odd_tools": (OK, "fine"),
    "half_tools": (OK, "fine"),
    "no_list": (ERROR, "its answer violates the protocol: tools: Input should be a valid list"),
    # in a call
    "none": (OK, "fine"),
    "death": (ERROR, "exited with code 7; its stderr ends with:\nthe database is gone"),
    "one_death": (ERROR, "exited with code 7"),
    "killed": (ERROR, "was killed by SIGKILL"),
    "silent_call": (ERROR, NO_ANSWER),
    "slow": (ERROR, NO_ANSWER),
    "cut": (ERROR, UNREADABLE + "it is not JSON (Invalid JSON: EOF while parsing a string"),
    "big_text": (OK, "xxxxxxxx"),
    "big_value": (OK, ""),
    "endless_line": (ERROR, "sent a message of more than 100 MB"),
    "junk": (ERROR, "printed 16 MiB that are not JSON-RPC, and no message"),
    "junk_first": (OK, "fine"),
    "other_ids": (OK, "right"),
    "every_content": (OK, "t"),
    "elicits": (OK, "refused: elicitation/create: the client does not support this"),
    "samples": (OK, "refused: sampling/createMessage: the client does not support this"),
    "wants_roots": (OK, "refused: roots/list: the client does not support this"),
    "progress": (OK, "done"),
    "progress_flood": (OK, "done"),
    "wrong_progress": (OK, "done"),
    "other_output": (OK, ""),
    "slow_pattern": (OK, ""),
    "null_result": (ERROR, UNREADABLE + 'its result is not an object; it sent: {"jsonrpc": "2.0", "id":'),
    "text_result": (ERROR, UNREADABLE + "its result is not an object"),
    "no_result": (ERROR, UNREADABLE + "it has neither a result nor an error"),
    "no_content": (ERROR, "its answer violates the protocol: content: Field required; it sent: {}"),
    "unknown_content": (ERROR, "Field required; it sent: {'data': 1, 'type': 'hologram'}"),
    "result_and_error": (REFUSED, "both (code -1)"),
    "text_error": (ERROR, UNREADABLE + "its error is not an object with a code and a message"),
    "null_id": (REFUSED, "what? (code -32700)"),
    "protocol_error": (REFUSED, "in red text (code -32603)"),
    "tool_error": (ERROR, "no such berth"),
    "not_a_number": (OK, ""),
    "long_number": (OK, ""),
    "deep": (ERROR, UNREADABLE + "it is not JSON (Invalid JSON: recursion limit exceeded"),
    "surrogate": (ERROR, UNREADABLE + "it is not JSON (Invalid JSON: unexpected end of hex escape"),
    "crlf": (OK, "crlf"),
    "in_lines": (ERROR, UNREADABLE + "a message was printed in several lines"),
    "loud": (OK, "fine"),
    "shifty": (OK, "call 1"),
    "shifty_silently": (OK, "call 1"),
}
# These are waited for in the end: everything else is answered without that.
SILENT = ("silent", "silent_handshake", "silent_list", "silent_call", "slow")
GROUPS = {
    "silent": SILENT,
    "starts": ("exit", "banner", "junk_at_start", "family", "stubborn", "ancient", "death_in_list"),
    "lists": ("many", "crowd", "crowd_of_prompts", "pages", "same_page", "endless_pages", "odd_tools", "half_tools",
              "no_list", "other_output", "slow_pattern", "shifty", "shifty_silently"),
    "floods": ("big_text", "big_value", "endless_line", "junk", "loud", "progress_flood"),
}  # fmt: skip
GROUPS["calls"] = tuple(fault for fault in HEARD if not any(fault in group for group in GROUPS.values()))
# Some of each kind, which every run plays; the campaign plays all.
SHORT = ("exit", "family", "odd_tools", "no_list", "one_death", "junk_first", "junk", "cut", "every_content",
         "elicits", "progress", "result_and_error")  # fmt: skip


def project(home: Path, faults: tuple[str, ...]) -> str:
    """A gateway before a good server and one for each fault, all marked in their environment."""
    tables = ["[mcp_server]\ngateway = true\nmax_listed = 5000\n"]
    for fault in ("good", *faults):
        words = [str(FAULTY), "none" if fault == "good" else fault, str(home / f"{fault}.note")]
        tables.append(
            f"[mcp.{fault}]\ncommand = {sys.executable!r}\nargs = {words!r}\nenv = {{MARK = {str(home)!r}}}\n"
        )
        limits = (3, 3) if fault in SILENT else (120, 120)
        tables.append("timeout = {}\nconnect_timeout = {}\n".format(*limits))
    return "".join(tables)


async def heard(mcp: McpServers, name: str) -> tuple[str, str]:
    try:
        result = await mcp.call_tool("here", name, timeout=150, on_progress=lambda event: None)
    except ServerRefused as error:
        return REFUSED, str(error)
    return (ERROR if result.is_error else OK), "".join(getattr(part, "text", "") for part in result.content)


def marked(home: Path) -> list[str]:
    """The processes that the servers under `home` have left."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"MARK={home}".encode() in (entry / "environ").read_bytes():
                found += [entry.name] if alive(int(entry.name)) else []
        except OSError:
            pass  # it has ended, or is not ours
    return found


def wrong(fault: str, said: tuple[str, str]) -> bool:
    kind, text = HEARD[fault]
    names_server = kind != ERROR or fault == "tool_error" or f"MCP server '{fault}'" in said[1]
    return said[0] != kind or text not in said[1] or not names_server


@pytest.mark.campaign("faults", only=True)
@pytest.mark.parametrize("group", GROUPS)
def test_a_fault_is_named_harms_no_other_server_and_leaves_no_process(served: Served, group: str) -> None:
    play(served, GROUPS[group])


def test_some_faults_are_named_harm_no_other_server_and_leave_no_process(served: Served) -> None:
    play(served, SHORT)


def play(served: Served, faults: tuple[str, ...]) -> None:
    """Call each server with a fault while the good one is called."""
    served.write("ropewalk.toml", project(served.home, faults))

    async def case() -> None:
        async with served.client() as mcp:
            good = asyncio.create_task(repeat(mcp))
            calls = {fault: asyncio.create_task(heard(mcp, f"{fault}__go")) for fault in faults}
            said = {fault: await call for fault, call in calls.items()}
            good.cancel()
            assert {fault: one for fault, one in said.items() if wrong(fault, one)} == {}
            assert await heard(mcp, "good__go") == (OK, "fine")
            if "one_death" in faults:
                assert await heard(mcp, "one_death__go") == (OK, "alive again")
            with contextlib.suppress(asyncio.CancelledError):
                await good  # whatever else it raised

    asyncio.run(case())
    wait_until(lambda: marked(served.home) == [], lambda: marked(served.home))


def test_a_server_with_very_many_prompts_has_its_first(served: Served) -> None:
    served.write("ropewalk.toml", project(served.home, ("crowd_of_prompts",)))

    async def case() -> None:
        async with served.client() as mcp:
            prompts = (await mcp.ask("here", lambda session: session.list_prompts(), "prompts")).prompts
            assert len(prompts) == 10_000
            assert prompts[0].name == "crowd_of_prompts__prompt_0"

    asyncio.run(case())


async def repeat(mcp: McpServers) -> None:
    """Call the good server again and again."""
    while True:
        assert await heard(mcp, "good__go") == (OK, "fine")
        await asyncio.sleep(0)


def test_every_fault_has_its_expectation() -> None:
    sys.path.insert(0, str(FAULTY.parent))
    try:
        import faulty
    finally:
        sys.path.remove(str(FAULTY.parent))
    assert sorted(faulty.FAULTS) == sorted([*HEARD, "late"])  # of that test_mcp_late.py knows
    assert sorted(fault for group in GROUPS.values() for fault in group) == sorted(HEARD)
