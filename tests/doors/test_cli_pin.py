"""`ropewalk tools pin`: what differs, approving it, and what the exit code says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import fork_server

pytestmark = pytest.mark.process

SHIFTY = Path(__file__).parents[1] / "mcp_servers" / "shifty.py"
PLAIN = {"name": "weigh", "description": "Weighs a rope.", "inputSchema": {"type": "object"}}


@pytest.fixture
def scale(project: Any) -> Any:
    """The project with a server `scale`."""
    tools = project.write("scale.json", json.dumps([PLAIN]))
    server = f"[mcp.scale]\ncommand = '{fork_server.program('python')}'\nargs = ['{SHIFTY}', '{tools}']\n"
    project.write("ropewalk.toml", server)
    return project


def test_pins_are_shown_approved_and_held(scale: Any) -> None:
    first = scale("tools", "pin", "--json")
    assert first.code == 1
    assert [(row["tool"], row["kind"]) for row in first.data["differences"]] == [
        ("scale:reload", "new"),
        ("scale:weigh", "new"),
    ]
    assert not (scale.home / "ropewalk.lock").exists()
    assert scale("tools", "pin", "scale", "--approve").code == 0
    assert scale("tools", "pin").out == "nothing differs from what was approved\n"

    scale.write("scale.json", json.dumps([{**PLAIN, "description": "Weighs you."}]))
    changed = scale("tools", "pin")
    assert changed.code == 1
    said = '~ scale:weigh  has changed since it was approved: description was "Weighs a rope." and is "Weighs you."'
    assert changed.out.splitlines()[0] == said
    called = scale("tools", "call", "scale:weigh")
    assert called.code == 2
    assert "has changed since it was approved" in called.err
    assert "scale:weigh" in scale("tools", "ls").out
    assert scale("tools", "pin", "scale:weigh", "--approve").code == 0
    assert scale("tools", "call", "scale:weigh").out == "weigh\n"


def test_only_the_tool_named_is_approved(scale: Any) -> None:
    assert scale("tools", "pin", "scale:weigh", "--approve").code == 0
    assert [tool["name"] for tool in scale("tools", "ls", "--json").data["tools"]] == ["weigh"]
    scale.write("scale.json", "[]")
    gone = scale("tools", "pin", "--json")
    assert [(row["tool"], row["kind"]) for row in gone.data["differences"]] == [
        ("scale:reload", "new"),
        ("scale:weigh", "gone"),
    ]


def test_what_cannot_be_pinned_is_said(scale: Any) -> None:
    assert "no server 'scal'; did you mean 'scale'?" in scale("tools", "pin", "scal").err
    assert "did you mean 'scale:weigh'?" in scale("tools", "pin", "scale:wiegh").err
    (scale.home / "scale.json").unlink()
    unreached = scale("tools", "pin", "--approve")
    assert unreached.code == 2
    assert "the tools of a server that cannot be reached were not approved" in unreached.err
    assert not (scale.home / "ropewalk.lock").exists()
    scale.write("ropewalk.lock", "{}")
    broken = scale("tools", "ls")
    assert (broken.code, "not a lock file" in broken.err) == (2, True)


def test_a_server_that_is_down_is_left_out_and_keeps_no_other_from_being_approved(scale: Any) -> None:
    up = (scale.home / "ropewalk.toml").read_text()
    scale.write("ropewalk.toml", up + "[mcp.down]\ncommand = 'no-such-program'\n")
    looked = scale("tools", "pin")
    assert looked.code == 1
    assert "? down  left out; its tools were not compared or approved: " in looked.out
    assert "MCP server 'down': no program" in looked.out
    approved = scale("tools", "pin", "--approve")
    assert approved.code == 1
    assert approved.out.splitlines()[:2] == ["+ scale:reload  approved", "+ scale:weigh  approved"]
    assert "when it can be reached again: ropewalk tools pin down --approve" in approved.out
    assert scale("tools", "call", "scale:weigh").out == "weigh\n"
    assert list(scale("tools", "pin", "--json").data["leftOut"]) == ["down"]
    assert scale("tools", "pin", "down", "--approve").code == 2
    assert scale("tools", "pin", "scale").code == 0


FLOW = """\
kind: chain
name: c
nodes:
  - {id: a, type: tool, tool: "scale:weigh", params: {}}
  - {id: b, type: tool, tool: "scale:wiegh", params: {}}
  - {id: c, type: tool, tool: "gone:away", params: {}}
"""


def test_a_tool_that_a_server_does_not_have_or_its_pin_refuses_is_a_problem_when_validated(scale: Any) -> None:
    gone = "[mcp.gone]\ncommand = 'no-such-program'\n"
    scale.write("ropewalk.toml", (scale.home / "ropewalk.toml").read_text() + gone)
    scale.write("c.yaml", FLOW)
    assert re.search(r"c\.yaml:6:31: nodes\[2\]\.tool: tool 'gone:away': .*MCP server", scale("validate", "c.yaml").err)
    unknown = scale("preview", "c.yaml")
    assert unknown.code == 3
    assert "c.yaml:5:31: nodes[1].tool: unknown tool 'scale:wiegh'; did you mean scale:weigh?" in unknown.err
    assert scale("tools", "pin", "scale", "--approve").code == 0
    scale.write("scale.json", json.dumps([{**PLAIN, "description": "Weighs you."}]))
    for wrong in (FLOW, FLOW + "  - {id: d, type: nonsense}\n"):  # also where something else is wrong
        scale.write("c.yaml", wrong)
        refused = scale("validate", "c.yaml", "--json")
        assert refused.code == 3
        error = refused.data["error"]
        said = {p["path"]: p["message"] for p in error["problems"]}
        assert "has changed since it was approved" in said["nodes[0].tool"]
        assert said["nodes[1].tool"] == "unknown tool 'scale:wiegh'"
        assert ("nodes[3].type" in said) == (wrong != FLOW)
        assert "MCP server 'gone': no program" in said["nodes[2].tool"]
    scale.write("c.yaml", FLOW.replace("  - {id: a", "  # {id: a").replace("  - {id: b", "  # {id: b"))
    assert scale("validate", "c.yaml").code == 3
    assert scale("validate", "c.yaml", "--allow-missing-tools").code == 0


def test_what_is_said_of_pins_is_what_is_so(scale: Any) -> None:
    def doctor() -> dict[str, tuple[str, str]]:
        return {row["name"]: (row["state"], row["message"]) for row in scale("doctor", "--json").data["findings"]}

    assert doctor()["pins"][0] == "note"
    written = (
        f"written to {scale.home / 'ropewalk.lock'}; restart serve, mcp and worker, because they read it only at "
        "their start"
    )
    approved = ["+ scale:reload  approved", "+ scale:weigh  approved", written]
    assert scale("tools", "pin", "--approve").out.splitlines() == approved
    assert doctor()["pins"] == ("ok", f"2 approved in {scale.home / 'ropewalk.lock'}, 0 refused")
    scale.write("scale.json", json.dumps([{**PLAIN, "name": "tare"}]))
    found = doctor()
    assert found["server scale"] == ("ok", "connected, 1 tool may be used")
    renamed = "is weigh under another name"
    assert found["tool scale:tare"] == ("fault", f"{renamed}; to use it: ropewalk tools pin scale:tare --approve")
    gone = "approved, and no longer offered; to remove it: ropewalk tools pin scale:weigh --approve"
    assert found["tool scale:weigh"] == ("note", gone)
    scale.write("scale.json", json.dumps([{**PLAIN, "description": "Weighs you."}]))
    changed = '~ scale:weigh  approved: description was "Weighs a rope." and is "Weighs you."'
    assert scale("tools", "pin", "--approve").out.splitlines() == [changed, written]
    scale.write("scale.json", "[]")
    out = "- scale:weigh  removed: no longer offered"
    assert scale("tools", "pin", "scale:weigh", "--approve").out.splitlines() == [out, written]
    lock = scale.home / "ropewalk.lock"
    lock.write_text(lock.read_text().replace("Reads", "Steals"))
    by_hand = scale("tools", "pin")
    assert by_hand.code == 2
    assert "so one of them was changed by hand; restore the file from version control, or delete it" in by_hand.err
