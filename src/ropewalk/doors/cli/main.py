"""The way in: `ropewalk COMMAND`, from the words to an exit code.

Heavy modules, asyncio among them, are imported only by the command that needs them, so that `--help` answers at once.
"""

from __future__ import annotations

import gc
import sys

from .commands import current_words, help_page, version
from .streams import close_unwritable_stderr, open_standard_streams, print_page, report_interruption


def main(words: list[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    open_standard_streams()
    try:
        return _run_words(sys.argv[1:] if words is None else words)
    finally:
        close_unwritable_stderr()


def _run_words(words: list[str]) -> int:
    if not words or words[0] in ("--help", "-h", "help"):
        return print_page(help_page())
    words = current_words(words)
    if words[0] in ("--version", "-V"):
        return print_page(f"ropewalk {version()}\n")
    if words[-1] in ("--help", "-h"):
        from .help import written_help

        page = written_help(words)
        if page is not None:
            return print_page(page)
    # Imports make many objects that stay; looking for garbage among them takes a tenth of a short command.
    gc.set_threshold(20_000)
    try:
        from .dispatch import dispatch
    except KeyboardInterrupt:
        return report_interruption()
    return dispatch(words)
