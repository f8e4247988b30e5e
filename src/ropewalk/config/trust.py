"""Whether a person has agreed to the servers of a file that somebody else may have written.

An agreement is the digest of a file's entries and directory, in the user's configuration folder and never in a project.
Changed entries, or the same ones in another directory, need a new agreement. The folder is private to its owner. A file
behind a link, or one that others can write, counts for nothing. `ROPEWALK_TRUST=all` agrees to every file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ..errors import ConfigError
from .servers_file import ServersFile

TRUST_VARIABLE: Final = "ROPEWALK_TRUST"
ALL: Final = "all"
_FILE: Final = "trusted.json"
_MAX_BYTES: Final = 1_000_000
_MAX_KEPT: Final = 1_000
_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW


def digest_of(servers: ServersFile) -> str:
    """Return the digest of everything that a file says about servers, and of the directory that they start in."""
    text = json.dumps([str(servers.file.resolve().parent), servers.written], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def is_trusted(servers: ServersFile, environ: Mapping[str, str]) -> bool:
    """Return True if a person has agreed to the servers of a file."""
    return environ.get(TRUST_VARIABLE) == ALL or answer_of(servers) is True


def answer_of(servers: ServersFile) -> bool | None:
    """Return whether a person has agreed to the servers of a file; None if nobody was asked."""
    entry = _read().get(digest_of(servers))
    return None if entry is None else entry.get("agreed") is True


def remember_answer(servers: ServersFile, is_agreed: bool) -> None:
    """Remember whether a person agrees to the servers of a file."""
    entry = {
        "agreed": is_agreed,
        "file": str(servers.file.resolve()),
        "servers": sorted(servers.servers),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    known = {**_read(), digest_of(servers): entry}
    _write(dict(list(known.items())[-_MAX_KEPT:]))


def distrust(file: Path) -> int:
    """Forget every agreement to the servers of a file; return how many there were."""
    known, path = _read(), str(file.resolve())
    kept = {digest: entry for digest, entry in known.items() if entry.get("file") != path}
    if len(kept) != len(known):
        _write(kept)
    return len(known) - len(kept)


def trust_folder() -> Path:
    """Return the folder of the user's configuration; a relative `XDG_CONFIG_HOME` would be in a project."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(base if os.path.isabs(base) else os.path.expanduser("~/.config")) / "ropewalk"


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


@contextlib.contextmanager
def _opened() -> Iterator[int]:
    """Open the folder, which nobody can exchange then."""
    descriptor = os.open(trust_folder(), os.O_RDONLY | os.O_DIRECTORY | _FLAGS)
    try:
        if not _is_ours(os.fstat(descriptor)):
            raise PermissionError(0, "others can write to it")
        yield descriptor
    finally:
        os.close(descriptor)


def _read() -> dict[str, dict[str, Any]]:
    """Return the agreements by digest; none if the file cannot be believed."""
    try:
        with _opened() as folder:
            descriptor = os.open(_FILE, os.O_RDONLY | os.O_NONBLOCK | _FLAGS, dir_fd=folder)
            with open(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode) or not _is_ours(status) or status.st_size > _MAX_BYTES:
                    return {}
                content = json.loads(file.read(_MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    trusted = content.get("trusted") if isinstance(content, dict) else None
    return (
        {digest: entry for digest, entry in trusted.items() if isinstance(entry, dict)}
        if isinstance(trusted, dict)
        else {}
    )


def _write(trusted: Mapping[str, Any]) -> None:
    data = json.dumps({"trusted": trusted}, indent=1).encode()
    draft = f".{_FILE}.{secrets.token_hex(8)}"
    try:
        trust_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        with _opened() as folder:
            try:
                descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600, dir_fd=folder)
                with open(descriptor, "wb") as file:
                    file.write(data)
                os.replace(draft, _FILE, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(draft, dir_fd=folder)
                raise
    except OSError as error:
        raise ConfigError(f"{trust_folder()}: the agreement cannot be kept: {error.strerror}") from error
