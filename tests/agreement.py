"""Agreement to the servers of a `.mcp.json`, for tests that are about something else."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ropewalk.config.servers_file import read_servers_file
from ropewalk.config.trust import remember_answer

AGREED: Final = {"ROPEWALK_TRUST": "all"}
"""The environment of somebody who agrees to every servers file."""


def agree(directory: Path) -> None:
    """Agree to the servers that a directory's file has now, as its person does with `ropewalk trust`."""
    remember_answer(read_servers_file(directory / ".mcp.json"), True)
