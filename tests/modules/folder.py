"""A directory of tool modules for a test, and a call of one of them as a run makes it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from patience import until
from ropewalk.errors import ToolError
from ropewalk.tools.directory.directory import DirectoryCaller
from ropewalk.tools.runner import Runner
from ropewalk.tools.toolbox import Toolbox


def written(root: Path, files: dict[str, str]) -> Path:
    """Files by their path inside `root`."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def caller(root: Path, files: dict[str, str] | None = None, **options: Any) -> DirectoryCaller:
    """The caller of a directory that holds these files."""
    return DirectoryCaller(
        options.pop("base", None) or Runner(Toolbox(allow_hosts=["127.0.0.1"])), written(root, files or {}), **options
    )


async def call(tools: DirectoryCaller, tool_id: str, args: dict[str, Any] | None = None, key: str = "r/n") -> Any:
    """One call, in the run `r` unless the key says another."""
    return await tools.bind(tool_id).call({} if args is None else args, key)


async def refused(tools: DirectoryCaller, tool_id: str, args: dict[str, Any] | None = None, key: str = "r/n") -> str:
    """The reason why a call fails."""
    with pytest.raises(ToolError) as caught:
        await call(tools, tool_id, args, key)
    return caught.value.reason


def _no_node() -> str:
    if shutil.which("node") is not None:
        return ""
    if os.environ.get("CI") == "true":
        raise AssertionError("node is not on the PATH")
    return "node is not on the PATH"


needs_node = pytest.mark.skipif(bool(_no_node()), reason="node is not on the PATH")
"""For tests of JavaScript modules; never skipped in CI."""


# --- JavaScript modules and the processes they are in ------------------------------------------------

PID = "export default () => ({ state_delta: { pid: process.pid } })"
SPIN = "export default () => { console.log('spinning'); for (;;); }"
WAIT = """import { writeFileSync } from 'node:fs'
export default (args) => { writeFileSync(args.file, String(process.pid)); return new Promise(() => {}) }"""


async def pid_of(tools: DirectoryCaller, key: str = "r/n") -> int:
    return int((await call(tools, "impl:pid.mjs", {}, key))["state_delta"]["pid"])


async def written_by(file: Path) -> int:
    """The process that wrote its number into this file, once it has."""

    def text() -> str:
        return file.read_text() if file.is_file() else ""

    return int(await until(text))
