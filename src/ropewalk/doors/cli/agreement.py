"""Questions at a terminal about the servers of a `.mcp.json`: may they start, and the values that they need."""

from __future__ import annotations

import contextlib
import getpass
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from ...config.project import find_config_file, read_config
from ...config.secrets import is_secret_name
from ...config.servers import SERVERS_FILE
from ...config.servers_file import ServersFile, read_servers_file
from ...config.trust import answer_of, remember_answer
from ...errors import RopewalkError
from ...source.document import escape_invisible
from .output import notify


def ask_before_opening(start: Path) -> None:
    """Ask at a terminal for what the project's servers file needs: an agreement, once, and its inputs."""
    project = find_config_file(start)
    if not os.path.lexists((project.parent if project else start) / SERVERS_FILE) or not has_terminal():
        return
    try:
        config = read_config(start)
    except RopewalkError:
        return  # opening the project reports it
    found = config.untrusted
    if found is not None:
        if answer_of(found) is not None:
            return  # the person has refused
        for line in server_lines(found):
            notify(line)
        is_agreed = ask_agreement(found)
        remember_answer(found, is_agreed)
        if not is_agreed:
            return
    else:
        found = read_servers_file(config.directory / SERVERS_FILE)
    _ask_inputs(found, os.environ)


def _ask_inputs(found: ServersFile, environ: Mapping[str, str]) -> None:
    """Ask for the values that servers need, and keep them for this process."""
    for variable, item in found.inputs.items():
        if variable in environ or item.has_default:
            continue
        prompt = escape_invisible(f"{item.description[:200]} (or set {variable}; Enter leaves the server out): ")
        with contextlib.suppress(EOFError):
            value = getpass.getpass(prompt) if item.is_secret else _read_line(prompt)
            if value:
                os.environ[variable] = value


def has_terminal() -> bool:
    """Return True if a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def server_lines(found: ServersFile) -> Iterator[str]:
    """Yield what the servers of a file run or connect to."""
    yield escape_invisible(f"{found.file} names servers that somebody else may have chosen:")
    for name, settings in found.servers.items():
        what = settings.get("url") or " ".join([settings["command"], *settings.get("args", ())])
        # Nothing is shortened: the end of a long argument may be what matters.
        yield escape_invisible(f"  {name}: {what}")
        for table in ("env", "headers"):
            for key, value in settings.get(table, {}).items():
                shown = "***" if is_secret_name(key) and "${" not in value else value
                yield escape_invisible(f"    {key} = {shown}")
        if "cwd" in settings:
            yield escape_invisible(f"    in {settings['cwd']}")


def ask_agreement(found: ServersFile) -> bool:
    """Ask whether the servers of a file may start."""
    with contextlib.suppress(ImportError, OSError):  # what was typed before the question does not answer it
        import termios

        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    try:
        return _read_line("start them in this project from now on? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _read_line(prompt: str) -> str:
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\r\n")
