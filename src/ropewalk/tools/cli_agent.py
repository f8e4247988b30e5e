"""The programs of coding agents as tools: `claude`, `codex` and `gemini`, one process per call.

The program is looked up on PATH and started without a shell, in its own process group, in the directory of the
definition or one inside it. Its output is bounded, and the whole group is killed at the timeout and when the call is
cancelled. To add a provider, add a function that builds its command line to `PROVIDERS`, and its name to
`dialects/experience_nodes.py` and `experience.schema.json`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from ..errors import InvalidValue
from ..frozen import dataclass
from ..schema import compile_schema
from ..values import Json, parsed
from .child import Child, harmless, inherited, start
from .inside import find

PREFIX: Final = "cli-agent"
MOST_OUTPUT: Final = 10_000_000
"""Bytes that a program may write to its standard output and error together."""
MOST_PROMPT: Final = 120_000
"""Bytes of a prompt: the operating system takes at most 128 KiB in one argument of a program."""
_SHOWN: Final = 500
_LAST_WORDS: Final = 2.0  # seconds for output that was written just before the end
_FENCE: Final = re.compile(r"```(?:json)?\s*\n(.*?)\n?\s*```", re.DOTALL | re.IGNORECASE)


class CliFailed(Exception):
    """The program of a coding agent gave no usable answer; the text names the program and says why."""

    def __init__(self, text: str, *, retryable: bool = True) -> None:
        self.retryable = retryable
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a program is asked: the arguments of one call, checked."""

    prompt: str
    format: str
    timeout: float
    model: str | None
    workdir: str | None
    extra: tuple[str, ...]
    schema: Json


def _claude(asked: Asked) -> list[str]:
    return ["-p", asked.prompt, "--output-format", asked.format, *_model(asked), *asked.extra]


def _codex(asked: Asked) -> list[str]:
    return ["exec", "--skip-git-repo-check", *_model(asked), *asked.extra, asked.prompt]


def _gemini(asked: Asked) -> list[str]:
    return ["--yolo", "--prompt", asked.prompt, *_model(asked), *asked.extra]


def _model(asked: Asked) -> list[str]:
    return ["--model", asked.model] if asked.model else []


PROVIDERS: Final[dict[str, tuple[str, Callable[[Asked], list[str]]]]] = {
    "claude-code": ("claude", _claude),
    "codex": ("codex", _codex),
    "gemini": ("gemini", _gemini),
}
"""The program of each provider, and its arguments."""


class CliAgents:
    """Runs the programs for the definitions of one directory, with the environment variables in `env`."""

    def __init__(self, root: Path, env: Mapping[str, str]) -> None:
        self._root, self._env = root, dict(env)

    async def ask(self, provider: str, args: Mapping[str, Json]) -> Json:
        """Run the program of a provider once.

        Args:
            provider: A key of `PROVIDERS`.
            args: `prompt`, `format` (`text` or `json`), `timeout_ms`, and perhaps `model`, `workdir`, `extra_args`
                and the JSON `schema` of the answer.

        Returns:
            The text that the program wrote, or the JSON in it.

        Raises:
            CliFailed: The program is missing, failed, took too long, wrote too much or wrote something else.
            WrongPath: The working directory is not inside the directory of the definition.
        """
        if provider not in PROVIDERS:
            raise CliFailed(f"unknown provider {provider!r}; there are {', '.join(PROVIDERS)}", retryable=False)
        name, arguments = PROVIDERS[provider]
        asked = _asked(args, name)
        cwd = self._root if asked.workdir is None else find(self._root, asked.workdir, directory=True)
        env = {**inherited(), **self._env}
        program = shutil.which(name, path=env.get("PATH", os.defpath))
        if program is None:
            message = f"the program {name} is not on the PATH; install it, and log in with it once"
            raise CliFailed(message, retryable=False)
        output = await _run([program, *arguments(asked)], env, cwd, asked.timeout, name)
        if asked.format == "text":
            return output.rstrip("\r\n")
        return _answer(output, asked.schema, name)


def _asked(args: Mapping[str, Json], name: str) -> Asked:
    prompt, extra = args.get("prompt"), args.get("extra_args") or []
    timeout = args.get("timeout_ms")
    if not isinstance(prompt, str) or not prompt.strip():
        raise CliFailed(f"{name}: the prompt is empty", retryable=False)
    if not isinstance(timeout, (int, float)) or not isinstance(extra, list):
        raise CliFailed(f"{name}: timeout_ms is a number and extra_args a list of texts", retryable=False)
    size = len(prompt.encode("utf-8", "surrogatepass"))
    if size > MOST_PROMPT:
        message = f"{name}: the prompt holds {size:,} bytes, and a program takes {MOST_PROMPT:,} as one argument"
        raise CliFailed(f"{message}; write large data to a file and name the file", retryable=False)
    if prompt.startswith("-"):
        prompt = f" {prompt}"  # a prompt may come from data, and must never be read as an option
    return Asked(
        prompt=prompt,
        format="json" if args.get("format") == "json" else "text",
        timeout=timeout / 1000,
        model=str(args["model"]) if args.get("model") else None,
        workdir=str(args["workdir"]) if args.get("workdir") else None,
        extra=tuple(str(item) for item in extra),
        schema=args.get("schema"),
    )


class _Output:
    """The output of a program as it arrives; `full` is set when it is more than may be kept."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.full = asyncio.Event()
        self._size = 0

    def add(self, fd: int, data: bytes) -> None:
        self._size += len(data)
        if self._size > MOST_OUTPUT:
            self.full.set()
        elif fd == 1:
            self.parts.append(data)

    def text(self) -> str:
        return b"".join(self.parts).decode("utf-8", "replace")


async def _run(argv: list[str], env: Mapping[str, str], cwd: Path, timeout: float, name: str) -> str:
    """The standard output of a program; no process of its group is left, however this ends."""
    output = _Output()
    try:
        child = await start(argv, env, str(cwd), heard=output.add)
    except (OSError, ValueError) as error:
        raise CliFailed(f"{name} cannot be started: {error}", retryable=False) from error
    try:
        child.stdin.close()
        if not await _ended(child, output, timeout):
            if output.full.is_set():
                raise CliFailed(f"{name} wrote more than {MOST_OUTPUT:,} bytes and was killed", retryable=False)
            raise CliFailed(f"{name} took longer than {timeout * 1000:g} ms and was killed")
        ending = await child.last_words(_LAST_WORDS)
        if output.full.is_set():
            raise CliFailed(f"{name} wrote more than {MOST_OUTPUT:,} bytes", retryable=False)
        if ending != "exited with code 0":
            said = harmless(child.stderr_tail()).strip()[-_SHOWN:]
            raise CliFailed(f"{name} {ending}" + (f": {said}" if said else ""))
        return output.text()
    finally:
        if not child.exited.is_set():
            child.kill()
        await child.stop(hurried=True)


async def _ended(child: Child, output: _Output, timeout: float) -> bool:
    """Return True once the program has ended, False if it wrote too much or the time is over."""
    waits = [asyncio.ensure_future(event.wait()) for event in (child.exited, output.full)]
    try:
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return child.exited.is_set()


def _answer(output: str, schema: Json, name: str) -> Json:
    """The JSON in what a program wrote, checked."""
    try:
        found = parsed(_json_in(output))
    except (InvalidValue, orjson.JSONDecodeError) as error:
        message = f"{name} was asked for JSON, and its answer is not: {error}"
        raise CliFailed(f"{message}; it begins with {harmless(output.strip())[:_SHOWN]!r}") from error
    if schema is not None:
        wrong = compile_schema(schema).problems(found, "answer")
        if wrong:
            message = "; ".join(str(problem) for problem in wrong[:3])
            raise CliFailed(f"{name}: the answer does not fit the schema: {message}")
    return found


def _json_in(output: str) -> str:
    """The JSON of an answer, taken out of the envelope of `claude --output-format json` and of a Markdown fence."""
    text = output.strip()
    for _ in range(2):  # an envelope holds the answer, not another envelope
        with contextlib.suppress(orjson.JSONDecodeError):
            envelope: Any = orjson.loads(text)
            if isinstance(envelope, dict) and isinstance(envelope.get("result"), str):
                text = envelope["result"].strip()
                continue
        break
    if text[:1] not in ("{", "["):
        fence = _FENCE.search(text)
        return fence[1] if fence is not None else text
    return text
