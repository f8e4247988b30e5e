"""Files that a command is told to write."""

from __future__ import annotations

import os
from pathlib import Path

from ...source.writing import replace_file
from .exits import UsageError


def saved(file: Path, text: str) -> str:
    """Write a file; returns what is said of that, and raises UsageError where it cannot be."""
    try:
        put(file, text)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error
    return f"wrote {file}"


def put(file: Path, text: str) -> None:
    """Write a file whole or not at all: what was there stays when the disk is full. What is no file of its own (a link,
    which may be that of an open file, as /dev/stdout is; a pipe, a device), or may have nothing beside it, is written
    as it stands."""
    there, own = file.exists(), file.is_file() and not file.is_symlink()
    if file.is_symlink() or (there and not (own and os.access(file, os.W_OK) and os.access(file.parent, os.W_OK))):
        file.write_text(text, encoding="utf-8")
        return
    replace_file(file, text.encode("utf-8"))
