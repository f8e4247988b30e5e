"""Remedies of errors in the words of each interface: a command, a request, or a call in Python.

To add a remedy, add an `Action` to `errors.py`, whose value is its Python text, and a row to `WORDINGS`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextvars import ContextVar
from enum import Enum
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import orjson

from ..errors import Action, Remedy
from ..fast_dataclass import dataclass

if TYPE_CHECKING:
    from ..app.context import Context


class Door(Enum):
    """The interface whose words a text uses."""

    CLI = "cli"
    HTTP = "http"
    MCP = "mcp"
    PYTHON = "python"


@dataclass(frozen=True)
class Wording:
    """The templates of one action."""

    # The command that performs it.
    cli: str
    # The request that performs it. None if only the host of the server can perform it.
    http: str | None = None


GIVEN: Final[ContextVar[tuple[str, str]]] = ContextVar("given", default=("", ""))
"""The options that name the store and the project of the present command, such as ` --store x.db`."""


def given_options(*, store: bool = True) -> str:
    """Return the options that a printed command needs to use the store and the project of the present one."""
    given_store, project = GIVEN.get()
    return f"{given_store if store else ''}{project}"


_RETRY: Final = "POST /api/runs/{run_id}/retry"

WORDINGS: Final[Mapping[Action, Wording]] = {
    Action.RESUME: Wording(
        "to resume it: ropewalk resume {run_id}{options}", "to resume it: POST /api/runs/{run_id}/resume"
    ),
    Action.CONTINUE: Wording("to continue it: ropewalk runs retry {run_id}{options}", f"to continue it: {_RETRY}"),
    Action.SHOW_WAITS: Wording(
        "to see what it waits for, and how to answer: ropewalk runs show {run_id}{options}",
        "to see what it waits for: GET /api/runs/{run_id}",
    ),
    Action.UPGRADE: Wording("to use the new definition: ropewalk resume {run_id} --upgrade {file}{options}"),
    Action.RETRY_CHANGED: Wording("to use the new definition: ropewalk runs retry {run_id} --upgrade {file}{options}"),
    Action.FORK_CHANGED: Wording(
        "to use the new definition: ropewalk runs fork {run_id} --definition {file}{options}",
        "to use the new definition: POST /api/runs/{run_id}/fork with a definition",
    ),
    Action.RETRY: Wording(
        "to retry what failed: ropewalk runs retry {run_id}{options}", f"to retry what failed: {_RETRY}"
    ),
    Action.RETRY_WITH_FILE: Wording("to use the tools of its file: ropewalk runs retry {run_id} {file}{options}"),
    Action.RESUME_WITH_FILE: Wording("to use the tools of its file: ropewalk resume {run_id} {file}{options}"),
    Action.RETRY_FROM: Wording(
        "to run it again: ropewalk runs retry {run_id} --from {node}{options}",
        f'to run it again: {_RETRY} with {{{{"nodes": [{{node}}]}}}}',
    ),
    Action.RETRY_UPGRADED: Wording(
        "to run it again: ropewalk runs retry {run_id} --from {node} --upgrade {file}{options}"
    ),
    Action.CHOOSE_NODE: Wording(
        "name the node to run from: ropewalk runs retry {run_id} --from NODE{options}",
        f'name the node to run from: {_RETRY} with {{{{"nodes": [NODE]}}}}',
    ),
    Action.ADD_NODE: Wording("to run it again as well, add --from {node}", 'add {node} to "nodes" in the body'),
    Action.FORK: Wording(
        "to start again from it: ropewalk runs fork {run_id}{options}",
        "to start again from it: POST /api/runs/{run_id}/fork",
    ),
    Action.STOP: Wording(
        "to stop it: ropewalk runs stop {run_id}{options}", "to stop it: POST /api/runs/{run_id}/stop"
    ),
    Action.EXECUTE_HERE: Wording(
        'to execute runs in this process, use engine="local", or --engine local on the command line'
    ),
    Action.CHOOSE_STORE: Wording("to use another store, set --store or ROPEWALK_STORE"),
    Action.EXAMINE_STORE: Wording("run `ropewalk doctor{options}` to see what else is damaged and what to do next"),
    Action.APPROVE_TOOL: Wording("to use it: ropewalk tools pin {tool} --approve{project}"),
    Action.APPROVE_TOOLS: Wording(
        "review every tool with `ropewalk tools pin{project}`, then approve them: ropewalk tools pin --approve{project}"
    ),
    Action.TRUST: Wording("to agree to them: ropewalk trust{project}, or set ROPEWALK_TRUST=all"),
    Action.LOG_IN: Wording("to log in: ropewalk tools login {server}{project}"),
    Action.LOG_IN_SCOPE: Wording("to log in with more rights: ropewalk tools login {server} --scope {scope}{project}"),
    Action.START_SCHEDULED: Wording(
        "to start another run: ropewalk schedules run {name}{options}",
        "to start another run: POST /api/schedules/{name}/run",
    ),
}
"""The words of each action."""
_NOTHING_GIVEN: Final = {"options": "", "project": ""}


def word_remedy(remedy: Remedy, door: Door) -> str:
    """Return a remedy as a person types it at this interface."""

    # MCP clients have no calls for runs. Their text names the command for the operator of the server.
    if door is Door.PYTHON:
        return str(remedy)
    wording = WORDINGS[remedy.action]
    if door is Door.HTTP and wording.http is not None:
        # An id is part of the path of a request; everything else is part of its JSON.
        encoded = {
            name: quote(value, safe="") if name in ("run_id", "name") else orjson.dumps(value).decode()
            for name, value in remedy.arguments.items()
        }
        return wording.http.format_map(encoded)
    arguments = {name: shlex.quote(value) for name, value in remedy.arguments.items()}
    given = {"options": given_options(), "project": given_options(store=False)} if door is Door.CLI else _NOTHING_GIVEN
    command = wording.cli.format_map({**arguments, **given})
    return command if door is Door.CLI else f"{command}, on the server's host"


def changed_file_note(context: Context, run_id: str, door: Door) -> str | None:
    """Say that the file of a run has changed, and how to use its new definition; None if it has not."""
    from ..app.runs.upgrade import changed_file

    changed = changed_file(context, run_id)
    if changed is None:
        return None
    file, remedy = changed
    return f"{file} has changed since; run {run_id} keeps its definition; {word_remedy(remedy, door)}"
