"""The command line: `ropewalk COMMAND`.

A command is a function that returns an `Answer`; printing it, exit codes and errors are here and
in `exits.py`, once for all. Commands hold no logic: they call `App` and shape what comes back.
Nothing heavy is imported before a command needs it: `--help` answers at once.

To add a command, write its function in a file here and name it in `commands.COMMANDS`.
"""

from __future__ import annotations

import sys

from .streams import close_full, open_closed, show

__all__ = ["main"]


def main(words: list[str] | None = None) -> int:
    """Run one command line (default: this process's) and return its exit code."""
    open_closed()
    try:
        return _answer(sys.argv[1:] if words is None else words)
    finally:
        close_full()


def _answer(words: list[str]) -> int:
    if not words or words[0] in ("--help", "-h", "help"):
        from .commands import help_page

        return show(help_page())
    if words[0] in ("--version", "-V"):
        from .commands import version

        return show(f"ropewalk {version()}\n")
    from .dispatch import dispatch

    return dispatch(words)
