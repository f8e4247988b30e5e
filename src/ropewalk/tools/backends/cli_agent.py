"""The programs of coding agents as tools: `claude`, `codex` and `gemini`, one process per call.

The program is looked up on PATH and started without a shell, in its own process group, in the directory of the
definition or one inside it. Its output is bounded, and the whole group is killed at the timeout and when the call is
cancelled. To add a provider, add a function that builds its command line to `PROVIDERS`, and its name to
`notations/experience/nodes.py`.
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

from ...errors import InvalidValue
from ...fast_dataclass import dataclass
from ...schema import compile_schema
from ...values import Json, parse_json
from ..child_process import Child, inherited_environment, start, without_control_characters
from ..directory.paths import find
from ..printed_end import printed_end

PREFIX: Final = "cli-agent"
MAX_OUTPUT_BYTES: Final = 10_000_000
"""Bytes that a program may write to its standard output and error together."""
MAX_PROMPT_BYTES: Final = 120_000
"""Bytes of a prompt: the operating system takes at most 128 KiB in one argument of a program."""
_MAX_EXCERPT: Final = 500
_LAST_OUTPUT_TIMEOUT: Final = 2.0  # seconds for output that was written just before the end
_FENCE: Final = re.compile(r"```(?:json)?\s*\n(.*?)\n?\s*```", re.DOTALL | re.IGNORECASE)


class CliFailed(Exception):
    """The program of a coding agent gave no usable answer; the text names the program and says why."""

    def __init__(self, text: str, *, retryable: bool = True) -> None:
        self.retryable = retryable
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """A checked request to a program."""

    prompt: str
    format: str
    timeout: float
    # The name of the model; None leaves the choice to the program.
    model: str | None
    # The working directory, inside the directory of the definition; None is that directory.
    workdir: str | None
    # More arguments for the program.
    extra: tuple[str, ...]
    # The JSON Schema of the answer, or None.
    schema: Json


def _claude_arguments(request: AgentRequest) -> list[str]:
    return ["-p", request.prompt, "--output-format", request.format, *_model_option(request), *request.extra]


def _codex_arguments(request: AgentRequest) -> list[str]:
    return ["exec", "--skip-git-repo-check", *_model_option(request), *request.extra, request.prompt]


def _gemini_arguments(request: AgentRequest) -> list[str]:
    return ["--yolo", "--prompt", request.prompt, *_model_option(request), *request.extra]


def _model_option(request: AgentRequest) -> list[str]:
    return ["--model", request.model] if request.model else []


PROVIDERS: Final[dict[str, tuple[str, Callable[[AgentRequest], list[str]]]]] = {
    "claude-code": ("claude", _claude_arguments),
    "codex": ("codex", _codex_arguments),
    "gemini": ("gemini", _gemini_arguments),
}
"""The program of each provider, and its arguments."""


class CliAgents:
    """Runs the programs for the definitions of one directory."""

    def __init__(self, root: Path, env: Mapping[str, str]) -> None:
        self._root, self._env = root, dict(env)

    async def ask(self, provider: str, args: Mapping[str, Json]) -> Json:
        """Run the program of a provider once."""
        if provider not in PROVIDERS:
            raise CliFailed(f"unknown provider {provider!r}; use {', '.join(PROVIDERS)}", retryable=False)
        name, arguments = PROVIDERS[provider]
        request = _read_request(args, name)
        cwd = self._root if request.workdir is None else find(self._root, request.workdir, directory=True)
        env = {**inherited_environment(), **self._env}
        program = shutil.which(name, path=env.get("PATH", os.defpath))
        if program is None:
            message = f"the program {name} is not on the PATH; install it, then log in with it once"
            raise CliFailed(message, retryable=False)
        output = await _run_program([program, *arguments(request)], env, cwd, request.timeout, name)
        if request.format == "text":
            return output.rstrip("\r\n")
        return _read_answer(output, request.schema, name)


def _read_request(args: Mapping[str, Json], name: str) -> AgentRequest:
    prompt, extra = args.get("prompt"), args.get("extra_args") or []
    timeout = args.get("timeout_ms")
    if not isinstance(prompt, str) or not prompt.strip():
        raise CliFailed(f"{name}: the prompt is empty", retryable=False)
    if not isinstance(timeout, (int, float)) or not isinstance(extra, list):
        raise CliFailed(f"{name}: timeout_ms must be a number, and extra_args a list of strings", retryable=False)
    size = len(prompt.encode("utf-8", "surrogatepass"))
    if size > MAX_PROMPT_BYTES:
        message = f"{name}: the prompt has {size:,} bytes; the limit is {MAX_PROMPT_BYTES:,} bytes"
        raise CliFailed(f"{message}; write large data to a file and name it in the prompt", retryable=False)
    if prompt.startswith("-"):
        prompt = f" {prompt}"  # a prompt from data must never be read as an option
    return AgentRequest(
        prompt=prompt,
        format="json" if args.get("format") == "json" else "text",
        timeout=timeout / 1000,
        model=str(args["model"]) if args.get("model") else None,
        workdir=str(args["workdir"]) if args.get("workdir") else None,
        extra=tuple(str(item) for item in extra),
        schema=args.get("schema"),
    )


class _Output:
    """Collects the output of a program; `full` is set if it exceeds the limit."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.full = asyncio.Event()
        self._size = 0

    def add(self, fd: int, data: bytes) -> None:
        self._size += len(data)
        if self._size > MAX_OUTPUT_BYTES:
            self.full.set()
        elif fd == 1:
            self.parts.append(data)

    def text(self) -> str:
        return b"".join(self.parts).decode("utf-8", "replace")


async def _run_program(argv: list[str], env: Mapping[str, str], cwd: Path, timeout: float, name: str) -> str:
    """Run a program and return its standard output."""

    # Its whole process group has ended when this returns or raises.
    output = _Output()
    try:
        child = await start(argv, env, str(cwd), on_output=output.add)
    except (OSError, ValueError) as error:
        raise CliFailed(f"could not start {name}: {error}", retryable=False) from error
    try:
        child.stdin.close()
        if not await _wait_for_end(child, output, timeout):
            if output.full.is_set():
                raise CliFailed(f"{name} wrote more than {MAX_OUTPUT_BYTES:,} bytes and was killed", retryable=False)
            raise CliFailed(f"{name} took longer than {timeout * 1000:g} ms and was killed")

        # Output that was written just before the end may still arrive.
        ending = await child.describe_end(_LAST_OUTPUT_TIMEOUT)
        if output.full.is_set():
            raise CliFailed(f"{name} wrote more than {MAX_OUTPUT_BYTES:,} bytes", retryable=False)
        if ending != "exited with code 0":
            stderr = printed_end(without_control_characters(child.stderr_tail()).strip(), _MAX_EXCERPT)
            raise CliFailed(f"{name} {ending}" + (f": {stderr}" if stderr else ""))
        return output.text()
    finally:
        if not child.exited.is_set():
            child.kill()
        await child.stop(hurried=True)


async def _wait_for_end(child: Child, output: _Output, timeout: float) -> bool:
    """Return True once the program has ended, False if it wrote too much or the time is over."""
    waits = [asyncio.ensure_future(event.wait()) for event in (child.exited, output.full)]
    try:
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return child.exited.is_set()


def _read_answer(output: str, schema: Json, name: str) -> Json:
    """Return the JSON in the output of a program, checked against the schema."""
    try:
        answer = parse_json(_extract_json(output))
    except (InvalidValue, orjson.JSONDecodeError) as error:
        message = f"{name} did not answer with JSON: {error}"
        raise CliFailed(
            f"{message}; it begins with {without_control_characters(output.strip())[:_MAX_EXCERPT]!r}"
        ) from error
    if schema is not None:
        problems = compile_schema(schema).problems(answer, "answer")
        if problems:
            message = "; ".join(str(problem) for problem in problems[:3])
            raise CliFailed(f"{name}: the answer does not fit the schema: {message}")
    return answer


def _extract_json(output: str) -> str:
    """Return an answer without the envelope of `claude --output-format json` and without a Markdown fence."""
    text = output.strip()
    for _ in range(2):  # an envelope contains the answer, never another envelope
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
