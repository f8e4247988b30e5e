"""The help of each command: text that `scripts/reference.py` makes, so that no parser is imported to print it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

WIDTH: Final = 80
FILE: Final = Path(__file__).with_name("help.txt")
MARK: Final = "\f"
"""Begins the page of a command, with its words on the rest of the line."""


def written_help(words: Sequence[str]) -> str | None:
    """Return the help that the words of a command line ask for; None if only the parser can give it."""
    if not words or words[-1] not in ("--help", "-h") or not _fits():
        return None
    _, found, rest = FILE.read_text(encoding="utf-8").partition(f"{MARK}{' '.join(words[:-1])}\n")
    return rest.partition(MARK)[0] if found else None


def _fits() -> bool:
    """Return False if lines of another width were asked for, or if the terminal is narrow."""
    if "COLUMNS" in os.environ:
        return False
    try:
        return not sys.stdout.isatty() or os.get_terminal_size(sys.stdout.fileno()).columns >= WIDTH
    except (OSError, ValueError):
        return True
