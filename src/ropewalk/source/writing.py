"""New files that no link can lead elsewhere.

A directory may come from a stranger, and hold links under the names that we are going to use. So a file is made only
where nothing has its name, and a file that exists is replaced as a whole.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def create_file(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a new file.

    Args:
        path: Where nothing is yet, no link either.
        data: What the file holds.
        mode: Its permissions, less those that the umask takes away.

    Raises:
        FileExistsError: Something has this name.
        OSError: The file cannot be written; nothing of it is left.
    """
    handle = os.open(path, _NEW, mode)
    try:
        with open(handle, "wb") as file:
            file.write(data)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def replace_file(path: Path, data: bytes) -> None:
    """Write a file as a whole, or leave what is there: a link of this name is replaced, never followed.

    Args:
        path: The file, there or not. A regular file keeps its permissions.
        data: What it holds from now on.

    Raises:
        OSError: The file cannot be written; what was there is still there.
    """
    beside = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.new")
    create_file(beside, data)
    try:
        before = _regular_mode(path)
        if before is not None:
            beside.chmod(before)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _regular_mode(path: Path) -> int | None:
    """The permissions of a regular file; None for anything else, a link too."""
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return None
    return stat.S_IMODE(found) if stat.S_ISREG(found) else None
