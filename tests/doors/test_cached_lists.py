"""Lists of tools of MCP servers that commands keep: a server is started once, and again when that matters."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

import fork_server
from doors.conftest import Project

pytestmark = pytest.mark.process

SERVER = Path(__file__).parents[1] / "mcp_servers" / "counted.py"
FLOW = 'kind: chain\nnodes: [{id: a, type: tool, tool: "desk:TOOL", params: {text: x}}]\n'
WEEK = 7 * 24 * 3600


class Desk:
    """A project with one counted server."""

    def __init__(self, project: Project, cache: Path) -> None:
        self.project, self.cache = project, cache
        self.offers("look")

    def offers(self, *tools: str, more: str = "") -> None:
        command, arguments = fork_server.program("python"), [str(SERVER), "starts", *tools]
        self.project.write("ropewalk.toml", f'[mcp.desk]\ncommand = "{command}"\nargs = {arguments}\n{more}')

    def __call__(self, *words: str, **env: str) -> Any:
        return self.project(*words, **env)

    def validate(self, tool: str = "look", *words: str) -> Any:
        return self("validate", self.project.write("flow.yaml", FLOW.replace("TOOL", tool)).name, *words)

    @property
    def starts(self) -> int:
        file = self.project.home / "starts"
        return len(file.read_text().splitlines()) if file.exists() else 0

    @property
    def lists(self) -> list[Path]:
        return sorted(self.cache.glob("ropewalk/tools-*.json"))

    def grow_old(self, seconds: float) -> None:
        for file in self.lists:
            os.utime(file, (time.time() - seconds,) * 2)

    def shown(self) -> set[str]:
        return {tool["name"] for tool in self("tools", "ls", "--json").data["tools"]}


@pytest.fixture
def desk(project: Project) -> Desk:
    return Desk(project, Path(os.environ["XDG_CACHE_HOME"]))


def test_a_server_is_started_once_and_again_with_fresh(desk: Desk) -> None:
    assert "from the cache" not in desk("tools", "ls").out
    again = desk("tools", "ls").out
    assert "desk:look" in again
    assert "from the cache: desk (" in again
    assert desk.validate().out == "flow.yaml: valid\n"
    assert desk("tools", "show", "desk:look").code == 0
    assert desk.starts == 1
    assert list(desk("tools", "ls", "--json").data["cached"]) == ["desk"]
    assert "from the cache" not in desk("tools", "ls", "--fresh").out
    assert desk.validate("look", "--fresh").code == 0
    assert desk.starts == 3


def test_another_configuration_program_or_script_is_asked(desk: Desk) -> None:
    assert desk.shown() == {"look"}
    desk.offers("look", "more")
    assert desk.shown() == {"look", "more"}
    desk.offers("look", more='env = {STAGE = "${STAGE:-test}"}\n')
    assert desk.shown() == {"look"}
    assert desk.starts == 3
    assert desk("tools", "ls", STAGE="live").code == 0
    assert desk.starts == 4
    script = desk.project.write("desk.py", SERVER.read_text())
    desk.project.write(
        "ropewalk.toml", f'[mcp.desk]\ncommand = "{fork_server.program("python")}"\nargs = ["desk.py", "starts"]\n'
    )
    assert desk.shown() == set()
    script.write_text(SERVER.read_text().replace("sys.argv[2:]", '["new"]'))
    assert desk.shown() == {"new"}


def test_an_old_list_is_asked_again_and_shown_if_the_server_fails(desk: Desk) -> None:
    desk("tools", "ls")
    desk.grow_old(WEEK - 60)
    assert desk.shown() == {"look"}
    assert desk.starts == 1
    desk.grow_old(WEEK + 60)
    assert desk.shown() == {"look"}
    assert desk.starts == 2

    # The server breaks, and its list is young: nothing asks it.
    desk.project.write("down", "")
    assert desk.validate().code == 0
    assert desk.starts == 2
    # With `--fresh` only the server counts. Otherwise its old list stays, and the failure is named.
    fresh = desk("tools", "ls", "--fresh", "--json").data
    assert (fresh["tools"], list(fresh["failures"]), fresh["cached"]) == ([], ["desk"], {})
    desk.grow_old(WEEK + 60)
    old = desk("tools", "ls")
    assert "desk:look" in old.out
    assert "no database" in old.out
    assert "from the cache: desk (168:01:" in old.out
    checked = desk.validate()
    assert checked.out == "flow.yaml: valid\n"
    assert "from the cache: desk (168:01:" in checked.err


def test_an_unknown_tool_is_asked_for(desk: Desk) -> None:
    desk("tools", "ls")
    assert desk.validate("lok").code == 3
    assert desk.starts == 2
    assert "no tool" in desk("tools", "show", "desk:lok").err
    assert desk.starts == 3


def test_a_call_asks_the_connected_server(desk: Desk) -> None:
    desk("tools", "ls")
    assert desk("tools", "call", "desk:look", "text=x").out == "done\n"
    assert desk("run", "flow.yaml").code != 0  # there is none yet
    desk.validate()
    assert desk("run", "flow.yaml", "--store", "memory").code == 0
    assert desk.starts == 3


def test_a_list_with_a_secret_is_not_kept(desk: Desk) -> None:
    desk.offers("look", "secret", more='env = {API_TOKEN = "sesame-open-1"}\n')
    desk("tools", "ls")
    assert desk.lists == []
    desk.offers("look", more='env = {API_TOKEN = "sesame-open-1"}\n')
    desk("tools", "ls")
    (file,) = desk.lists
    assert "sesame" not in file.read_text()
    assert "sesame" not in file.name


def test_only_the_user_can_read_the_lists_and_none_is_in_the_project(desk: Desk) -> None:
    desk("tools", "ls")
    (file,) = desk.lists
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in desk.project.home.iterdir()} >= {"ropewalk.toml", "starts"}
    assert not list(desk.project.home.rglob("tools-*"))


@pytest.mark.parametrize("home", ["/dev/null/none", ""])
def test_without_a_directory_to_write_every_command_asks(desk: Desk, home: str) -> None:
    env = {"XDG_CACHE_HOME": home or "relative", "HOME": "/dev/null/none"}
    for number in (1, 2):
        listed = desk("tools", "ls", **env)
        assert (listed.code, listed.err, "desk:look" in listed.out) == (0, "", True)
        assert desk.starts == number
