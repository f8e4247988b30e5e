"""Whether a person has agreed to the servers of a file that somebody else may have written.

An agreement is the digest of a file's entries and directory, in the user's configuration folder and never in a project.
Changed entries, or the same ones in another directory, need a new agreement. The folder is private to its owner. A file
behind a link, or one that others can write, counts for nothing. `ROPEWALK_TRUST=all` agrees to every file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ..errors import ConfigError
from .private_folder import opened_folder, read_private, replace_private
from .servers_file import ServersFile

TRUST_VARIABLE: Final = "ROPEWALK_TRUST"
ALL: Final = "all"
_FILE: Final = "trusted.json"
_MAX_BYTES: Final = 1_000_000
_MAX_KEPT: Final = 1_000


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


def _read() -> dict[str, dict[str, Any]]:
    """Return the agreements by digest; none if the file cannot be believed."""
    try:
        with opened_folder(trust_folder()) as folder:
            found = read_private(folder, _FILE, _MAX_BYTES)
        content = None if found is None else json.loads(found[0])
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
    try:
        with opened_folder(trust_folder(), make=True) as folder:
            replace_private(folder, _FILE, data)
    except OSError as error:
        raise ConfigError(f"{trust_folder()}: the agreement cannot be kept: {error.strerror}") from error
