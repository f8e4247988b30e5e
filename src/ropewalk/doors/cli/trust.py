"""`trust`: agree to the servers of a `.mcp.json`."""

from __future__ import annotations

import os
from typing import Annotated, Any

from cyclopts import Parameter

from ...config.project import read_config
from ...config.servers import SERVERS_FILE
from ...config.servers_file import read_servers_file
from ...config.trust import distrust, is_trusted, remember_answer
from ...source.document import escape_invisible
from .agreement import ask_agreement, has_terminal, server_lines
from .dispatch import Answer, UsageError
from .options import Json, Project
from .output import notify
from .session import directory


def trust(
    *,
    yes: Annotated[bool, Parameter(name="--yes", negative=(), help="Agree without a question.")] = False,
    revoke: Annotated[bool, Parameter(negative=(), help="Withdraw the agreement.")] = False,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Show the servers that the project's `.mcp.json` starts, and agree to them.

    The agreement is kept in your configuration folder. It ends when the servers in the file change.
    """
    config = read_config(directory(None, project))
    file = config.directory / SERVERS_FILE
    if revoke:
        count = distrust(file)
        text = "the agreement is withdrawn" if count else "there is no agreement"
        return Answer(data={"file": str(file), "trusted": False}, text=text)
    if not os.path.lexists(file):
        raise UsageError(f"there is no {SERVERS_FILE} in {config.directory}")
    found = read_servers_file(file)
    if found.fault is not None:
        raise UsageError(found.fault)
    for name, reason in found.left_out.items():
        notify(escape_invisible(f"! {name}: {reason}"))
    data: dict[str, Any] = {"file": str(file), "servers": list(found.servers)}
    if not found.servers:
        return Answer(data={**data, "trusted": False}, text=f"{SERVERS_FILE} lists no server that can be started")
    if is_trusted(found, {}):
        return Answer(data={**data, "trusted": True}, text=f"you have agreed to: {', '.join(found.servers)}")
    if not yes and not has_terminal():
        raise UsageError("agreement needs a terminal, or the option --yes")
    for line in server_lines(found):
        notify(line)
    is_agreed = yes or ask_agreement(found)
    remember_answer(found, is_agreed)
    text = f"agreed to: {', '.join(found.servers)}" if is_agreed else "the servers are not started"
    return Answer(data={**data, "trusted": is_agreed}, text=text)
