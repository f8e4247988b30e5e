"""The command line: `ropewalk COMMAND`.

A command is a function that returns an `Answer`; printing it, exit codes and errors are here and
in `exits.py`, once for all. Commands hold no logic: they call `App` and shape what comes back.
Nothing heavy is imported before a command needs it: `--help` answers at once.

To add a command, write its function in a file here and name it in `commands.COMMANDS`.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main(words: list[str] | None = None) -> int:
    """Run one command line (default: this process's) and return its exit code."""
    words = sys.argv[1:] if words is None else words
    if not words or words[0] in ("--help", "-h", "help"):
        from .commands import help_page

        sys.stdout.write(help_page())
        return 0
    if words[0] in ("--version", "-V"):
        from .commands import version

        sys.stdout.write(f"ropewalk {version()}\n")
        return 0
    from .dispatch import dispatch

    return dispatch(words)
