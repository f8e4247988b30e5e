"""A folder of the user that nobody else can write, and the files in it.

Everything is opened by the descriptor of the folder, so that nobody can exchange it in between. A link, and a file or
a folder that another user owns or can write, counts for nothing.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW


@contextlib.contextmanager
def opened_folder(path: Path, *, make: bool = False) -> Iterator[int]:
    """Open the folder, and make it first if asked; raise PermissionError if others can write to it."""
    if make:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _FLAGS)
    try:
        if not _is_ours(os.fstat(descriptor)):
            raise PermissionError(0, "others can write to it")
        yield descriptor
    finally:
        os.close(descriptor)


def read_private(folder: int, name: str, limit: int) -> tuple[bytes, float] | None:
    """Return a file and the time of its last change; None for one that cannot be believed or is above the limit."""
    with os.fdopen(os.open(name, os.O_RDONLY | os.O_NONBLOCK | _FLAGS, dir_fd=folder), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or not _is_ours(status) or status.st_size > limit:
            return None
        return file.read(limit), status.st_mtime


def replace_private(folder: int, name: str, data: bytes) -> None:
    """Write a file in one step: a reader sees the old or the new one, and a killed writer leaves a draft."""
    draft = f".{name.removesuffix('.json')}{secrets.token_hex(8)}"
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600, dir_fd=folder)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022
