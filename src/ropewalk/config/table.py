"""A TOML table whose keys are checked, and which can say where each stands.

The TOML reader gives no positions, so lines are searched for them when something is wrong.
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
from ..source import Lines, decoded, is_file
from ..values import MAX_DEPTH, closest
from .settings import MODES
from .trust import TRUST_HINTS
from .workplace import CATCH_UP

Check: TypeAlias = Callable[[Any], bool]


def is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _text_table(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(v, str) for v in value.values())


def _tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, dict) for v in value)


def _seconds(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")


def _wait(value: Any) -> bool:
    return _seconds(value) or (value == 0 and not isinstance(value, bool))


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _amount(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _catch_up(value: Any) -> bool:
    return value in CATCH_UP


def _depth(value: Any) -> bool:
    return _count(value) and value <= MAX_DEPTH


def _number(value: Any) -> bool:
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
    _amount: "a whole number from 0",
    _wait: "a number of seconds, 0 or more",
    _depth: f"a whole number from 1 to {MAX_DEPTH}",
    _flag: "true or false",
    _retention: "{days = 30, runs = 10000}, either of them, or false",
    _number: "a number above 0",
    _sync: '"normal" or "full"',
    _engine: '"local" or "dbos"',
    _mode: f"one of {', '.join(MODES)}",
    _trust: f'"{TRUST_HINTS}", or left out',
    _catch_up: f"one of {', '.join(CATCH_UP)}",
}
SERVER_KEYS: Final[dict[str, Check]] = {
    "command": is_text,
    "args": _texts,
    "env": _text_table,
    "cwd": is_text,
    "url": is_text,
    "headers": _text_table,
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
RATE_KEYS: Final[dict[str, Check]] = {"per_second": _number, "burst": _count}
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
        "most_listed": _amount,
        "instructions": is_text,
        "wait_for_servers": _wait,
    },
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
        "max_retries": _amount,
        "timeout": _seconds,
        "stream": _flag,
        "prompt_cache": _flag,
    },
    "secrets": {"allow": _texts, "http": _texts},
    "limits": {
        "tools": _anything,  # a table, as whoever reads it says
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
    """Whether the file is there; ConfigError where something stands in its place that is none."""
    try:
        return is_file(file)
    except FileExistsError as error:
        raise ConfigError(f"{named(file)} {error}") from None
    except PermissionError as error:
        raise ConfigError(f"{named(file)} cannot be looked for: {error.strerror}") from error


def named(file: Path) -> str:
    """How messages name the file: short where it is near."""
    return os.path.relpath(file, Path.cwd()) if file.is_relative_to(Path.cwd()) else str(file)


def together(found: list[ConfigError]) -> None:
    """Raise what was found wrong in files as one error, in their order; nothing where nothing was."""
    if found:
        once = dict.fromkeys(problem for one in found for problem in one.problems)
        raise ConfigError(sorted(once, key=lambda one: (one.place.file, one.place.line) if one.place else ("", 0)))


class TomlFile:
    """A TOML file that can say where a key stands: tomllib cannot, so lines are searched. Without a path an empty one.
    What is wrong in one of its tables can be noted, so that the others are looked at, too, before it is told."""

    def __init__(self, path: Path | None) -> None:
        self.name = "" if path is None else named(path)
        self.text, self.data = "", dict[str, Any]()
        self._noted: list[ConfigError] = []
        if path is not None:
            self._read(path, self.name)

    @contextmanager
    def noting(self) -> Iterator[None]:
        """What is found wrong inside is told by `tell`, with everything else that is."""
        try:
            yield
        except ConfigError as error:
            self._noted.append(error)

    def tell(self) -> None:
        """Raise what was noted, all at once."""
        together(self._noted)

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
        lines = self.text.splitlines()
        found = re.search(r"\(at line (\d+), column (\d+)\)$", str(error))
        line, column = (int(found[1]), int(found[2])) if found else (len(lines), len(lines[-1]) + 1 if lines else 1)
        said = re.sub(r"\s*\(at .*\)$", "", str(error))
        said = re.sub(r"\(('.*'),?\)", lambda key: f"[{'.'.join(_ITEM.findall(key[1]))}]", said)  # a tuple of Python
        text = lines[line - 1] if 0 < line <= len(lines) else ""
        return ConfigError(said[:1].lower() + said[1:], place=Place(self.name, max(line, 1), max(column, 1), text))

    def _deep(self) -> ConfigError:
        """The reader gives up without a place: it is where brackets stand deeper than any value may."""
        depth = 0
        for found in _BRACKETS.finditer(self.text):
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
            if depth > MAX_DEPTH:
                place = Lines(self.name, self.text).place(found.start())
                return ConfigError(f"nested deeper than {MAX_DEPTH}", place=place)
        return ConfigError(f"nested deeper than {MAX_DEPTH}", place=Place(self.name, 1, 1))

    def table(self, at: tuple[str, ...]) -> dict[str, Any]:
        """The table at `at`, empty when there is none."""
        value: Any = self.data
        for depth, part in enumerate(at, 1):
            value = value.get(part, {})
            if not isinstance(value, dict):
                whole = ".".join(at[:depth])
                self.wrong(at[:depth], f"{whole} must be a table: [{whole}]")
        found: dict[str, Any] = value
        return found

    def check(self, at: tuple[str, ...], keys: Mapping[str, Check]) -> dict[str, Any]:
        """The table at `at`, every key known and of its type; ConfigError with all that is wrong in it."""
        value, found = self.table(at), []
        for key, inner in value.items():
            if key not in keys:
                found.append(self.unknown((*at, key), keys))
            elif not keys[key](inner):
                said = f"[{'.'.join(at)}] {key}: must be {WORDS[keys[key]]}"
                found.append(ConfigError(said, place=self.place((*at, key))))
        together(found)
        return dict(value)

    def unknown(self, at: tuple[str, ...], known: Mapping[str, Any] | tuple[str, ...]) -> ConfigError:
        """What is said of a key that is not known."""
        near = closest(at[-1], known)
        hint = f"did you mean {near}?" if near else f"known are: {', '.join(known)}"
        inside = f"[{'.'.join(at[:-1])}] " if len(at) > 1 else ""
        return ConfigError(f"{inside}unknown key {at[-1]!r}; {hint}", place=self.place(at))

    def wrong(self, at: tuple[str, ...], message: str) -> NoReturn:
        raise ConfigError(message, place=self.place(at))

    def place(self, at: tuple[str, ...]) -> Place:
        """The line that sets `at`, or the nearest table around it."""
        lines = self.text.splitlines()
        for length in range(len(at), 0, -1):
            inside: tuple[str, ...] = ()
            for number, line in enumerate(lines, 1):
                if head := _LINE_TABLE.match(line):
                    inside = path = _parts(f"[{head[1]}]")
                    column = head.start(1)
                elif key := _LINE_KEY.match(line):
                    path, column = inside + _parts(f"{key[1]} = 0"), key.start(1)
                else:
                    continue
                if path[:length] == at[:length]:
                    return Place(self.name, number, column + 1, line)
        return Place(self.name, 1, 1, lines[0] if lines else "")


def _parts(line: str) -> tuple[str, ...]:
    """The parts of a dotted TOML key, read by the TOML reader itself."""
    try:
        table: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:  # a line inside a multi-line text that only looks like a key
        return ()
    parts: list[str] = []
    while isinstance(table, dict) and table:
        name, table = next(iter(table.items()))
        parts.append(name)
    return tuple(parts)
