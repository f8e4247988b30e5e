"""`ropewalk.toml`: the keys of its tables, and a reader that knows the place of each key.

The tables of keys (`SECTIONS`, `SERVER_KEYS`, ...) name a check for each key, and `WORDS` says what a
check accepts. To add a setting, add its key to a table here and a field to settings.py. The TOML
reader of Python gives no positions, so `TomlFile` searches the lines when something is wrong.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

from ..errors import ConfigError, InvalidFlow, Place
from ..source.load import decoded, is_file
from ..source.locations import Lines
from ..values import MAX_DEPTH, did_you_mean
from .settings import CATCH_UP, MODES, RESOURCES, TRUST_HINTS

Check: TypeAlias = Callable[[Any], bool]


def is_text(value: Any) -> bool:
    """Return True for a text that is not empty."""
    return isinstance(value, str) and value != ""


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _text_table(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(v, str) for v in value.values())


def _auth(value: Any) -> bool:
    """Return True for a kind of authorization, or a table with its settings; the server's configuration checks them."""
    return is_text(value) or isinstance(value, dict)


def _tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, dict) for v in value)


def _seconds(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")


def _seconds_or_zero(value: Any) -> bool:
    return _seconds(value) or (value == 0 and not isinstance(value, bool))


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _count_or_zero(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _catch_up(value: Any) -> bool:
    return value in CATCH_UP


def _depth(value: Any) -> bool:
    return _count(value) and value <= MAX_DEPTH


def _positive_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")


def _anything(value: Any) -> bool:
    return True


def _mode(value: Any) -> bool:
    return value in MODES


def _trust(value: Any) -> bool:
    return bool(value == TRUST_HINTS)


def _sync(value: Any) -> bool:
    return value in ("normal", "full")


def _engine(value: Any) -> bool:
    return value in ("local", "dbos")


def _approve(value: Any) -> bool:
    return value in ("destructive", "writes", "none")


def _save(value: Any) -> bool:
    return value in ("ask", "allow")


def is_sampling(value: Any) -> bool:
    """Return True for a boolean, or a table of limits of requests to the model."""
    if isinstance(value, dict):
        return value.keys() <= {"max_tokens", "max_requests"} and all(map(_count, value.values()))
    return isinstance(value, bool)


def _resources(value: Any) -> bool:
    return isinstance(value, list) and all(item in RESOURCES for item in value)


def _parallel(value: Any) -> bool:
    return value in ("none", "reads", "all")


def _effects(value: Any) -> bool:
    return isinstance(value, dict) and all(effect in ("read", "write", "destructive") for effect in value.values())


def _policy(value: Any) -> bool:
    return value in ("on_request", "on_failure")


def _undos(value: Any) -> bool:
    return isinstance(value, dict) and all(
        is_text(undo)
        or (
            isinstance(undo, dict)
            and is_text(undo.get("tool"))
            and isinstance(undo.get("args", {}), dict)
            and undo.keys() <= {"tool", "args"}
        )
        for undo in value.values()
    )


def _retention(value: Any) -> bool:
    if value is False:
        return True
    checks = {"days": _seconds, "runs": _count}
    return isinstance(value, dict) and all(key in checks and checks[key](inner) for key, inner in value.items())


WORDS: Final[dict[Check, str]] = {
    is_text: "text",
    _texts: "a list of texts",
    _text_table: "a table of texts",
    _tables: "a list of tables",
    _seconds: "a number of seconds above 0",
    _count: "a whole number above 0",
    _count_or_zero: "a whole number from 0",
    _seconds_or_zero: "a number of seconds, 0 or more",
    _depth: f"a whole number from 1 to {MAX_DEPTH}",
    _flag: "true or false",
    _retention: "{days = 30, runs = 10000}, either of them, or false",
    _positive_number: "a number above 0",
    _sync: '"normal" or "full"',
    _engine: '"local" or "dbos"',
    _mode: f"one of {', '.join(MODES)}",
    is_sampling: "true, false or {max_tokens = 1000, max_requests = 100}, either of them",
    _resources: f"a list of: {', '.join(RESOURCES)}",
    _trust: f'"{TRUST_HINTS}", or left out',
    _approve: '"destructive", "writes" or "none"',
    _save: '"ask" or "allow"',
    _parallel: '"none", "reads" or "all"',
    _effects: 'a table of tool ids or patterns, each with "read", "write" or "destructive"',
    _policy: '"on_request" or "on_failure"',
    _undos: 'a table of tool ids, each with the id of a tool or {tool = "...", args = {...}}',
    _auth: "a kind of authorization, or a table with its settings",
    _catch_up: f"one of {', '.join(CATCH_UP)}",
}
SERVER_KEYS: Final[dict[str, Check]] = {
    "command": is_text,
    "args": _texts,
    "env": _text_table,
    "cwd": is_text,
    "url": is_text,
    "headers": _text_table,
    "auth": _auth,
    "roots": _texts,
    "sampling": is_sampling,
    "timeout": _seconds,
    "connect_timeout": _seconds,
    "mode": _mode,
    "trust": _trust,
    "enabled": _flag,
}
PROVIDER_KEYS: Final[dict[str, Check]] = {
    "url": is_text,
    "openapi": is_text,
    "tools": _tables,
    "headers": _text_table,
    "timeout": _seconds,
    "read_only": _texts,
    "enabled": _flag,
}
QUEUE_KEYS: Final[dict[str, Check]] = {
    "concurrency": _count,
    "worker_concurrency": _count,
    "limit": _count,
    "period": _seconds,
}
RATE_KEYS: Final[dict[str, Check]] = {"per_second": _positive_number, "burst": _count}
SCHEDULE_KEYS: Final[dict[str, Check]] = {
    "cron": is_text,
    "flow": is_text,
    "input": _anything,
    "timezone": is_text,
    "queue": is_text,
    "catch_up": _catch_up,
}
SECTIONS: Final[dict[str, dict[str, Check]]] = {
    "tools": {"modules": _texts},
    "mcp_server": {
        "flows": _texts,
        "stored": _flag,
        "tools": _flag,
        "gateway": _flag,
        "prefix": _flag,
        "max_listed": _count_or_zero,
        "instructions": is_text,
        "wait_for_servers": _seconds_or_zero,
        "task_only": _texts,
        "prompts": _texts,
        "resources": _resources,
    },
    "plans": {
        "offer": _flag,
        "approve": _approve,
        "save": _save,
        "decide": _flag,
        "parallel": _parallel,
        "max_result": _count,
        "effects": _effects,
    },
    "undo": {"policy": _policy, "attempts": _count, "delay": _seconds_or_zero, "tools": _undos},
    "network": {"allow": _texts},
    "store": {"url": is_text, "sync": _sync, "engine": _engine, "retention": _retention},
    "workers": {
        "concurrency": _count,
        "lease": _seconds,
        "grace": _seconds,
        "recoveries": _count,
        "longest_block": _seconds,
    },
    "claude": {
        "model": is_text,
        "base_url": is_text,
        "max_tokens": _count,
        "max_retries": _count_or_zero,
        "timeout": _seconds,
        "stream": _flag,
        "prompt_cache": _flag,
    },
    "secrets": {"allow": _texts, "http": _texts},
    "limits": {
        "tools": _anything,  # a table; `read_workplace` checks it
        "tool_timeout": _seconds,
        "nodes": _count,
        "nesting": _depth,
        "file_size": _count,
        "aliases": _count,
    },
}
_LINE_KEY = re.compile(
    r"""^\s*((?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+))*)\s*="""
)
_BRACKETS = re.compile(
    r"""\"{3}(?:[^\\]|\\[\s\S])*?\"{3}|'{3}[\s\S]*?'{3}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|\#[^\n]*|[\[\]{}]"""
)
_ITEM = re.compile(r"'([^']*)'")
_LINE_TABLE = re.compile(r"^\s*\[(?!\[)([^\]]+)\]")


def stands(file: Path) -> bool:
    """Return True if the file exists.

    Raises:
        ConfigError: Something of this name is not a file, or cannot be looked up.
    """
    try:
        return is_file(file)
    except FileExistsError as error:
        raise ConfigError(f"{named(file)} {error}") from None
    except PermissionError as error:
        raise ConfigError(f"{named(file)}: cannot check if it exists: {error.strerror}") from error


def named(file: Path) -> str:
    """Return the path of a file for messages: relative to the working directory if the file is below it."""
    here = Path.cwd()
    return os.path.relpath(file, here) if file.is_relative_to(here) else str(file)


def raise_all(errors: list[ConfigError]) -> None:
    """Raise all problems of several errors as one ConfigError, sorted by place; do nothing without errors."""
    if errors:
        problems = dict.fromkeys(problem for error in errors for problem in error.problems)
        raise ConfigError(
            sorted(problems, key=lambda item: (item.place.file, item.place.line) if item.place else ("", 0))
        )


class TomlFile:
    """A TOML file with checks and places of keys; an empty one without a path.

    Errors inside `noting` are collected, so that all tables are checked; `raise_noted` raises them.
    """

    def __init__(self, path: Path | None) -> None:
        self.name = "" if path is None else named(path)
        self.text = ""
        self.data: dict[str, Any] = {}
        self._noted: list[ConfigError] = []
        if path is not None:
            self._read(path, self.name)

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Collect a ConfigError of the block, for `raise_noted`."""
        try:
            yield
        except ConfigError as error:
            self._noted.append(error)

    def raise_noted(self) -> None:
        """Raise the collected errors as one ConfigError."""
        raise_all(self._noted)

    def _read(self, path: Path, name: str) -> None:
        try:
            raw = decoded(path.read_bytes(), name).removeprefix("\ufeff")
            self.text = raw.replace("\r\n", "\n").replace("\r", "\n")
            self.data = tomllib.loads(self.text)
        except OSError as error:
            raise ConfigError(f"{name} cannot be read: {error.strerror}") from error
        except InvalidFlow as error:
            raise ConfigError(error.problems) from None
        except tomllib.TOMLDecodeError as error:
            raise self._syntax(error) from None
        except RecursionError:
            raise self._deep() from None

    def _syntax(self, error: tomllib.TOMLDecodeError) -> ConfigError:
        """Turn an error of tomllib into ours, with a place and without Python's notation."""
        lines = self.text.splitlines()
        position = re.search(r"\(at line (\d+), column (\d+)\)$", str(error))
        if position:
            line, column = int(position[1]), int(position[2])
        else:
            line, column = len(lines), len(lines[-1]) + 1 if lines else 1  # at the end of the file
        message = re.sub(r"\s*\(at .*\)$", "", str(error))
        # A key is a tuple there: ('queues', 'fast') becomes [queues.fast].
        message = re.sub(r"\(('.*'),?\)", lambda key: f"[{'.'.join(_ITEM.findall(key[1]))}]", message)
        text = lines[line - 1] if 0 < line <= len(lines) else ""
        place = Place(self.name, max(line, 1), max(column, 1), text)
        return ConfigError(message[:1].lower() + message[1:], place=place)

    def _deep(self) -> ConfigError:
        """Find where brackets are nested too deeply: tomllib gives no place for it."""
        depth = 0
        for token in _BRACKETS.finditer(self.text):
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
            if depth > MAX_DEPTH:
                place = Lines(self.name, self.text).place(token.start())
                return ConfigError(f"nested deeper than {MAX_DEPTH}", place=place)
        return ConfigError(f"nested deeper than {MAX_DEPTH}", place=Place(self.name, 1, 1))

    def table(self, at: tuple[str, ...]) -> dict[str, Any]:
        """Return the table at a path of keys, such as ("mcp", "files"); an empty one if there is none.

        Raises:
            ConfigError: Something on the path is not a table.
        """
        table = self.data
        for depth, part in enumerate(at, 1):
            table = table.get(part, {})
            if not isinstance(table, dict):
                name = ".".join(at[:depth])
                self.wrong(at[:depth], f"{name} must be a table: [{name}]")
        return table

    def check(self, at: tuple[str, ...], keys: Mapping[str, Check]) -> dict[str, Any]:
        """Return a copy of the table at a path, with every key known and every value accepted.

        Args:
            at: The path of keys.
            keys: The known keys, with their checks.

        Raises:
            ConfigError: All that is wrong in the table.
        """
        table = self.table(at)
        errors = []
        for key, value in table.items():
            if key not in keys:
                errors.append(self.unknown((*at, key), keys))
            elif not keys[key](value):
                message = f"[{'.'.join(at)}] {key}: must be {WORDS[keys[key]]}"
                errors.append(ConfigError(message, place=self.place((*at, key))))
        raise_all(errors)
        return dict(table)

    def unknown(self, at: tuple[str, ...], known: Mapping[str, Any] | tuple[str, ...]) -> ConfigError:
        """Return the error for an unknown key, with what was probably meant."""
        suggestion = did_you_mean(at[-1], known)
        hint = f"did you mean {suggestion}?" if suggestion else f"known are: {', '.join(known)}"
        inside = f"[{'.'.join(at[:-1])}] " if len(at) > 1 else ""
        return ConfigError(f"{inside}unknown key {at[-1]!r}; {hint}", place=self.place(at))

    def wrong(self, at: tuple[str, ...], message: str) -> NoReturn:
        """Raise ConfigError with a message and the place of a key."""
        raise ConfigError(message, place=self.place(at))

    def place(self, at: tuple[str, ...]) -> Place:
        """Return the place of the line that sets a key, or of the nearest table around it."""
        lines = self.text.splitlines()
        # Look for the whole path first, then for shorter beginnings of it.
        for length in range(len(at), 0, -1):
            inside: tuple[str, ...] = ()
            for number, line in enumerate(lines, 1):
                match = _LINE_TABLE.match(line)
                if match:
                    inside = path = _key_parts(f"[{match[1]}]")
                else:
                    match = _LINE_KEY.match(line)
                    if not match:
                        continue
                    path = inside + _key_parts(f"{match[1]} = 0")
                if path[:length] == at[:length]:
                    return Place(self.name, number, match.start(1) + 1, line)
        return Place(self.name, 1, 1, lines[0] if lines else "")


def _key_parts(line: str) -> tuple[str, ...]:
    """Return the parts of a dotted TOML key, as the TOML reader itself reads them."""
    try:
        table: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:  # a line inside a multi-line text that only looks like a key
        return ()
    parts: list[str] = []
    while isinstance(table, dict) and table:
        name, table = next(iter(table.items()))
        parts.append(name)
    return tuple(parts)
