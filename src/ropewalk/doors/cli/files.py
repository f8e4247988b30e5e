"""Files that a command is told to write."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

from .exits import UsageError


def saved(file: Path, text: str) -> str:
    """Write a file; returns what is said of that, and raises UsageError where it cannot be."""
    try:
        put(file, text)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error
    return f"wrote {file}"


def put(file: Path, text: str) -> None:
    """Write a file whole or not at all: what was there stays when the disk is full. What is no file (a pipe, a device),
    or has no room beside it, is written as it stands."""
    target = file.resolve()
    there = target.exists()
    if there and not (target.is_file() and os.access(target, os.W_OK) and os.access(target.parent, os.W_OK)):
        target.write_text(text, encoding="utf-8")
        return
    beside = target.with_name(f".{uuid.uuid4().hex[:12]}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        if there:
            shutil.copymode(target, beside)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
