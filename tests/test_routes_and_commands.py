"""What can be done over HTTP can be done by a command, and the pages name both; each failure says what to add."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from ropewalk.app.app import App
from ropewalk.doors.cli.commands import COMMANDS
from ropewalk.doors.http.site import api_of

DOCS = Path(__file__).parents[1] / "docs"
COMMAND_OF: Final[dict[str, str]] = {
    "GET /api/waiting": "runs ls",
    "POST /api/runs/{}/retry": "runs retry",
    "POST /api/runs/{}/undo": "runs undo",
    "POST /api/runs/{}/resume": "resume",
    "POST /api/runs/{}/fork": "runs fork",
    "GET /api/runs/{}/waiting": "runs show",
    "POST /api/runs/{}/approve": "runs approve",
    "POST /api/runs/{}/send": "runs send",
    "GET /api/runs/{}/diff": "runs diff",
    "POST /api/runs": "run",
    "GET /api/runs": "runs ls",
    "GET /api/runs/{}/graph": "graph",
    "GET /api/runs/{}/events": "runs watch",
    "GET /api/runs/{}/logs": "runs logs",
    "POST /api/runs/{}/stop": "runs stop",
    "GET /api/runs/{}": "runs show",
    "GET /api/definitions/{}/{}": "runs versions",
    "GET /api/definitions/file/{}/drawing": "graph",
    "GET /api/definitions/{}/{}/drawing": "graph",
    "POST /api/validate": "validate",
    "POST /api/preview": "preview",
    "GET /api/overview": "overview",
    "GET /api/schedules": "schedules ls",
    "POST /api/schedules/{}/run": "schedules run",
    "POST /api/schedules/{}/pause": "schedules pause",
    "POST /api/schedules/{}/resume": "schedules resume",
    "GET /api/tool-stats": "tools stats",
    "GET /api/tools": "tools ls",
    "POST /api/tools/select": "tools select",
    "GET /api/tools/{}": "tools show",
    "POST /api/tools/{}": "tools call",
}
"""By route (`METHOD /path`, `{}` for each part that varies) the command that does the same."""
NO_COMMAND: Final[dict[str, str]] = {
    "GET /api/runs/{}/arguments": "`runs export` has them in the test that it writes",
    "GET /api/runs/{}/actions": "commands say why they refuse",
    "GET /api/runs/{}/content/{}": "bytes for the web UI; `runs export` has what refers to them",
    "GET /api/definitions": "who has the files has their names",
    "GET /api/definitions/file/{}": "it is a file",
    "POST /api/definitions/{}": "definitions are stored from Python and over HTTP; commands take files",
    "DELETE /api/definitions/{}/{}": "definitions are stored from Python and over HTTP; commands take files",
    **dict.fromkeys(
        [f"POST /api/plans/{operation}" for operation in ("check", "find", "resume", "run", "save")],
        "models call these over MCP and in chat; people run the file of a plan",
    ),
    "POST /api/logout": "sessions belong to browsers",
    "GET /metrics": "Prometheus reads it",
}
"""The other routes, and why no command does the same."""
NO_ROUTE: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("new", "convert", "schema", "tools describe", "tools stubs", "test", "n8n build", "chat", "models"),
        "works on files, or in a terminal",
    ),
    **dict.fromkeys(("serve", "dev", "mcp", "worker", "completion"), "starts or sets up a process"),
    **dict.fromkeys(("doctor", "bench"), "looks at this machine"),
    **dict.fromkeys(
        ("runs prune", "store copy", "tools pin", "tools import", "trust"), "for whoever owns the store, or the project"
    ),
    **dict.fromkeys(("tools login", "tools logout"), "for whoever has the browser and the logins of this machine"),
    **dict.fromkeys(("runs export", "runs release", "runs cancel"), "for whoever owns the store, or a synonym"),
    "workers ls": "`GET /api/overview` lists them",
    "tools learnt": "for whoever owns the store",
}
"""The commands without a route, and why."""


def plain(route: str) -> str:
    """A route with `{}` for each part that varies, and without its query."""
    return re.sub(r"\{\w+\}", "{}", route.partition("?")[0])


def routes_of_the_code() -> set[str]:
    paths = api_of(App("memory"))["paths"]
    return {plain(f"{method.upper()} {path}") for path, methods in paths.items() for method in methods}


def routes_of_the_page() -> set[str]:
    page = (DOCS / "http-reference.md").read_text("utf-8")
    rows = re.findall(r"^\| (`(?:GET|POST|DELETE|PUT|PATCH)[^|]*) \|", page, re.MULTILINE)
    cells = [cell for row in rows for cell in re.findall(r"`([^`]+)`", row)]
    return {plain(f"{method} {cell.rpartition(' ')[2]}") for cell in cells for method in re.findall(r"[A-Z]{3,}", cell)}


def missing_places(routes: set[str], commands: set[str], on_the_page: set[str], help_text: str) -> list[str]:
    """Say of each route and command which of its places lacks it."""
    found = [f"docs/http-reference.md: add a row for {route}" for route in sorted(routes - on_the_page)]
    found += [f"docs/http-reference.md: there is no route {route}" for route in sorted(on_the_page - routes)]
    listed = COMMAND_OF.keys() | NO_COMMAND.keys()
    found += [
        f"{route}: add its command (doors/cli/commands.py) to COMMAND_OF, or to NO_COMMAND why it has none"
        for route in sorted(routes - listed)
    ]
    found += [f"{route}: there is no such route" for route in sorted(listed - routes)]
    found += [
        f"{route}: add the command {command!r} to doors/cli/commands.py, with a module beside it"
        for route, command in COMMAND_OF.items()
        if command not in commands
    ]
    found += [
        f"{command}: add its route (doors/http/) to COMMAND_OF, or to NO_ROUTE why it has none"
        for command in sorted(commands - set(COMMAND_OF.values()) - NO_ROUTE.keys())
    ]
    found += [f"{command}: there is no such command" for command in sorted(NO_ROUTE.keys() - commands)]
    named = {command for command in commands if re.search(rf"(?:ropewalk |`){command}\b", help_text)}
    found += [f"{command}: name it on a page in docs/" for command in sorted(commands - named)]
    return found


def commands_on_the_pages() -> str:
    """The text of all pages that people write, where each command is to be named."""
    return "\n".join(page.read_text("utf-8") for page in sorted(DOCS.glob("*.md")))


def test_each_route_and_each_command_is_in_all_its_places() -> None:
    found = missing_places(routes_of_the_code(), set(COMMANDS), routes_of_the_page(), commands_on_the_pages())
    assert found == []
    table = (DOCS / "cli.md").read_text("utf-8").partition("## All commands")[2].partition("\n## ")[0]
    assert set(COMMANDS) - set(re.findall(r"`([a-z0-9 ]+)`", table)) == set()


@pytest.mark.parametrize(
    ("route", "command", "places"),
    [
        ("GET /api/new", None, ["docs/http-reference.md: add a row", "GET /api/new: add its command"]),
        (None, "runs rename", ["runs rename: add its route", "runs rename: name it on a page"]),
    ],
)
def test_a_new_one_is_told_every_place_that_it_needs(route: str | None, command: str | None, places: list[str]) -> None:
    routes, commands = routes_of_the_code(), set(COMMANDS)
    found = missing_places(
        routes | ({route} if route else set()),
        commands | ({command} if command else set()),
        routes_of_the_page(),
        commands_on_the_pages(),
    )
    assert len(found) == len(places)
    assert all(line.startswith(place) for line, place in zip(found, places, strict=True))


def test_a_route_that_is_gone_is_missed() -> None:
    routes, commands = routes_of_the_code() - {"POST /api/preview"}, set(COMMANDS) - {"preview"}
    found = missing_places(routes, commands, routes_of_the_page(), commands_on_the_pages())
    assert found == [
        "docs/http-reference.md: there is no route POST /api/preview",
        "POST /api/preview: there is no such route",
        "POST /api/preview: add the command 'preview' to doors/cli/commands.py, with a module beside it",
    ]
