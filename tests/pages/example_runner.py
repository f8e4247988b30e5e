"""Run the examples of a page, and compare what they print with the page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import fork_server

from .page import RUN, Block, Page

_SECONDS = 500  # only to end what hangs
_COMMAND = re.compile(r"^\$ ([^\n]*)\n((?:(?!\$ )[^\n]*\n)*)", re.MULTILINE)
_FOR_A_SHELL = re.compile(r"[^\w\s./:=,@\"'+-]")
_QUOTED = re.compile(r"'[^']*'")


class ExampleRunner:
    """One run of a page in its directory."""

    def __init__(self, page: Page, home: Path, variables: Mapping[str, str] = MappingProxyType({})) -> None:
        path = os.pathsep.join([str(fork_server.programs()), str(Path(sys.executable).parent), os.environ["PATH"]])
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("ROPEWALK_", "LINES"))}
        self._page, self._home = page, home
        self._env = {**kept, "PATH": path, "COLUMNS": "120", "TERM": "xterm-256color", **variables}
        self._before: tuple[str, str] | None = None  # the kind of the last block that ran, and what it printed

    def run(self) -> None:
        """Run every block of the page; one that fails raises AssertionError with its line."""
        for block in self._page.blocks:
            if block.file:
                self._write(block)
            elif block.reason is None and block.kind in RUN:
                getattr(self, f"run_{block.kind}")(block)

    def _write(self, block: Block) -> None:
        assert block.file
        path = self._home / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.code, encoding="utf-8")

    def run_python(self, block: Block) -> None:
        script = self._home / "_example.py"
        script.write_text(
            "\n" * (block.line - 1) + block.code, encoding="utf-8"
        )  # tracebacks name the line of the page
        # Programs that an example starts with sys.executable are forked only if it is a forked `python` itself.
        python = fork_server.program("python") if "sys.executable" in block.code else sys.executable
        self._succeed(block, [python, script.name])

    def run_sh(self, block: Block) -> None:
        self._succeed(block, ["bash", "-euo", "pipefail", "-c", block.code])

    def run_console(self, block: Block) -> None:
        code = 0
        for command in _COMMAND.finditer(block.code):
            place = self._place(block, block.code.count("\n", 0, command.start()))
            if command[1] == "echo $?":
                assert int(command[2]) == code, f"{place}: the exit code is {code}"
                continue
            done = self.execute(_words(command[1]))
            code = done.returncode
            assert _pattern(command[2]).fullmatch(done.stdout), f"{place}: $ {command[1]}\n{done.stdout}"

    def run_text(self, block: Block) -> None:
        assert self._before is not None, f"{self._place(block)}: no block above it prints this"
        kind, printed = self._before
        pattern = _pattern(block.code)
        is_shown = pattern.fullmatch(printed) if kind == "python" else pattern.search(printed)
        assert is_shown, f"{self._place(block)}: the block above prints\n{printed}"

    def _succeed(self, block: Block, words: list[str]) -> None:
        done = self.execute(words)
        self._before = (block.kind, done.stdout)
        assert done.returncode == 0, f"{self._place(block)}: exit code {done.returncode}\n{done.stdout}"

    def execute(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a command as the examples of the page run."""
        return fork_server.run(
            words,
            cwd=self._home,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=_SECONDS,
        )

    def _place(self, block: Block, offset: int = 0) -> str:
        return f"{self._page.name}:{block.line + offset}"


def _words(command: str) -> list[str]:
    """Return the words that run a command: its own if it is a plain `ropewalk` command, else those of a shell."""
    if command.startswith("ropewalk ") and not _FOR_A_SHELL.search(_QUOTED.sub("''", command)):
        return [fork_server.COMMAND, *shlex.split(command)[1:]]
    return ["bash", "-c", command]


def _pattern(expected: str) -> re.Pattern[str]:
    """Return the pattern of an output in which `...` is any text, and white space at the end of lines is free."""
    lines = [".*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") for line in expected.splitlines()]
    return re.compile(r"\s*".join(lines) + r"\s*", re.DOTALL)
