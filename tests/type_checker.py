"""Strict mypy over files of a test."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

_CACHE = Path(__file__).parents[1] / ".mypy_cache"


def mypy(folder: Path, *files: str) -> str:
    """What mypy prints about files in a folder.

    It starts from a copy of the cache that a check of the project has left, as .ci/run does one before the tests:
    without it mypy reads Ropewalk and its dependencies first, which takes most of a minute.
    """
    cache = folder / ".mypy_cache"
    if _CACHE.is_dir() and not cache.exists():
        shutil.copytree(_CACHE, cache)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--cache-dir", str(cache), *files]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500, check=False).stdout
