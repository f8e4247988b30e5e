"""`ropewalk.toml`: the keys of its tables, and a reader that knows the place of each key.

The tables of keys (`SECTIONS`, `SERVER_KEYS`, ...) name the `ValueType` of each key: which values are right, and the
words for them in messages. `project.py` and `servers.py` read their sections with it. To add a setting, add its key to
a table here and a field to settings.py. The TOML reader of Python gives no positions, so `TomlFile` searches the lines
when something is wrong.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from ..duration import DAY, read_duration
from ..errors import ConfigError, InvalidFlow, Place, display_path
from ..fast_dataclass import dataclass
from ..source.load import decoded, is_file
from ..source.locations import Lines
from ..values import MAX_DEPTH, did_you_mean
from .providers import is_web_address
from .settings import CATCH_UP, EMBEDDERS, MODES, QUESTIONS, RESOURCES, TRUST_HINTS, is_embedder_name


@dataclass(frozen=True, slots=True)
class ValueType:
    """The kind of value that a key takes."""

    # The words for it, in messages.
    expected: str
    # Returns True for a right value.
    accepts: Callable[[Any], bool]
    # Returns the value to use: durations such as `10s` are numbers there.
    read: Callable[[Any], Any] = lambda value: value
    # A wrong value may be a secret, so no message shows its line.
    is_hidden: bool = False


def is_text(value: Any) -> bool:
    """Return True for a text that is not empty."""
    return isinstance(value, str) and value != ""


def _is_number(value: Any) -> bool:
    # In Python, True and False are integers.
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_above_zero(value: Any) -> bool:
    return _is_number(value) and 0 < value < float("inf")


def _is_from_zero(value: Any) -> bool:
    return _is_above_zero(value) or (_is_number(value) and value == 0)


def _is_integer_from(lowest: int, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= lowest


def _is_list_of(kind: type, value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)


def _is_table_of(accepts: Callable[[Any], bool], value: Any) -> bool:
    return isinstance(value, dict) and all(map(accepts, value.values()))


def _read_table(table: Any, keys: Mapping[str, ValueType]) -> Any:
    """Return a table with the values to use; a value of another type as it is."""
    if not isinstance(table, dict):
        return table
    return {key: keys[key].read(value) if key in keys else value for key, value in table.items()}


def _read_tables(tables: Any, keys: Mapping[str, ValueType]) -> Any:
    if not isinstance(tables, dict):
        return tables
    return {name: _read_table(table, keys) for name, table in tables.items()}


def _is_undo(value: Any) -> bool:
    """Return True for the id of a tool that undoes another one, or a table with the id and its arguments."""
    if not isinstance(value, dict):
        return is_text(value)
    return is_text(value.get("tool")) and isinstance(value.get("args", {}), dict) and value.keys() <= {"tool", "args"}


def _is_retention(value: Any) -> bool:
    if value is False:
        return True
    return isinstance(value, dict) and all(
        key in _RETENTION_KEYS and _RETENTION_KEYS[key].accepts(inner) for key, inner in value.items()
    )


def _is_sampling(value: Any) -> bool:
    """Return True for a boolean, or a table of limits of requests to the model."""
    if isinstance(value, dict):
        return value.keys() <= {"max_tokens", "max_requests"} and all(map(_COUNT.accepts, value.values()))
    return isinstance(value, bool)


def _read_durations(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: read_duration(item) for name, item in value.items()}
    return read_duration(value)


def _one_of(*values: str) -> ValueType:
    quoted = [f'"{value}"' for value in values]
    return ValueType(f"{', '.join(quoted[:-1])} or {quoted[-1]}", lambda value: value in values)


_ANYTHING: Final = ValueType("anything", lambda value: True)
_TEXT: Final = ValueType("text", is_text)
_TEXTS: Final = ValueType("a list of texts", partial(_is_list_of, str))
_TEXT_TABLE: Final = ValueType("a table of texts", partial(_is_table_of, lambda value: isinstance(value, str)))
_TABLES: Final = ValueType("a list of tables", partial(_is_list_of, dict))
_ADDRESS: Final = ValueType(
    'an address that begins with http:// or https://, such as "http://localhost:11434/v1"', is_web_address
)
_VARIABLE: Final = ValueType(
    "the name of an environment variable that holds the key, such as OPENAI_API_KEY, never the key itself",
    lambda value: isinstance(value, str) and bool(re.fullmatch("[A-Z_][A-Z0-9_]*|[A-Za-z_][A-Za-z0-9_]{0,30}", value)),
    is_hidden=True,
)
_TABLE: Final = ValueType("a table", lambda value: isinstance(value, dict))
_FLAG: Final = ValueType("true or false", lambda value: isinstance(value, bool))
_FLAG_OR_TEXTS: Final = ValueType(
    "true, false or a list of texts", lambda value: isinstance(value, bool) or _is_list_of(str, value)
)
_POSITIVE_NUMBER: Final = ValueType("a number above 0", _is_above_zero)
_EXAMPLE: Final = 'or a duration such as "10s"'
_SECONDS: Final = ValueType(f"a number of seconds above 0, {_EXAMPLE}", _is_above_zero, read_duration)
_SECONDS_OR_ZERO: Final = ValueType(f"a number of seconds, 0 or more, {_EXAMPLE}", _is_from_zero, read_duration)
_CACHE_TTL: Final = ValueType(
    f"a number of seconds above 0, {_EXAMPLE}, or a table of them by pattern of tool ids",
    lambda value: _is_above_zero(value) or _is_table_of(_is_above_zero, value),
    _read_durations,
)
_DAYS: Final = ValueType("a number of days above 0", _is_above_zero, partial(read_duration, unit=DAY))
_COST: Final = ValueType("a number of US dollars, 0 or more", _is_from_zero)
_COUNT: Final = ValueType("a whole number above 0", partial(_is_integer_from, 1))
_COUNT_OR_ZERO: Final = ValueType("a whole number of 0 or more", partial(_is_integer_from, 0))
_DEPTH: Final = ValueType(
    f"a whole number from 1 to {MAX_DEPTH}", lambda value: _is_integer_from(1, value) and value <= MAX_DEPTH
)
# The configuration of the server checks the settings of the table.
_AUTH: Final = ValueType(
    "a kind of authorization, or a table with its settings", lambda value: is_text(value) or isinstance(value, dict)
)
SAMPLING: Final = ValueType("true, false or {max_tokens = 1000, max_requests = 100}, either of them", _is_sampling)
_RETENTION_KEYS: Final = {"days": _DAYS, "runs": _COUNT}
_RETENTION: Final = ValueType(
    "{days = 30, runs = 10000}, either of them, or false", _is_retention, partial(_read_table, keys=_RETENTION_KEYS)
)
_EFFECTS: Final = ValueType(
    'a table of tool ids or patterns, each with "read", "write" or "destructive"',
    partial(_is_table_of, lambda value: value in ("read", "write", "destructive")),
)
_UNDOS: Final = ValueType(
    'a table of tool ids, each with the id of a tool or {tool = "...", args = {...}}', partial(_is_table_of, _is_undo)
)
_PHASE_TOOLS: Final = ValueType("a table of phases, each with a list of tools", partial(_is_table_of, _TEXTS.accepts))

_BUDGET_KEYS: Final = {"calls": _COUNT_OR_ZERO, "tokens": _COUNT_OR_ZERO, "seconds": _SECONDS, "cost": _COST}
_BUDGETS: Final = ValueType(
    "a table of definitions, each with {calls = 100, tokens = 10000, seconds = 60, cost = 1.5}, some of them",
    partial(
        _is_table_of,
        lambda value: (
            isinstance(value, dict)
            and all(name in _BUDGET_KEYS and _BUDGET_KEYS[name].accepts(limit) for name, limit in value.items())
        ),
    ),
    partial(_read_tables, keys=_BUDGET_KEYS),
)

SERVER_KEYS: Final[dict[str, ValueType]] = {
    "command": _TEXT,
    "args": _TEXTS,
    "env": _TEXT_TABLE,
    "cwd": _TEXT,
    "url": _TEXT,
    "headers": _TEXT_TABLE,
    "auth": _AUTH,
    "roots": _TEXTS,
    "sampling": SAMPLING,
    "timeout": _SECONDS,
    "connect_timeout": _SECONDS,
    "mode": ValueType(f"one of {', '.join(MODES)}", lambda value: value in MODES),
    "trust": ValueType(f'"{TRUST_HINTS}", or left out', lambda value: bool(value == TRUST_HINTS)),
    "questions": ValueType(f"one of {', '.join(QUESTIONS)}", lambda value: value in QUESTIONS),
    "tools": _TEXTS,
    "exclude_tools": _TEXTS,
    "enabled": _FLAG,
}
PROVIDER_KEYS: Final[dict[str, ValueType]] = {
    "url": _TEXT,
    "openapi": _TEXT,
    "tools": _TABLES,
    "headers": _TEXT_TABLE,
    "timeout": _SECONDS,
    "read_only": _TEXTS,
    "include": _TEXTS,
    "exclude": _TEXTS,
    "rename": _TEXT_TABLE,
    "server_variables": _TEXT_TABLE,
    "credentials": ValueType("a table of security schemes, or false", lambda v: isinstance(v, dict) or v is False),
    "enabled": _FLAG,
}
QUEUE_KEYS: Final[dict[str, ValueType]] = {
    "concurrency": _COUNT,
    "worker_concurrency": _COUNT,
    "limit": _COUNT,
    "period": _SECONDS,
}
RATE_KEYS: Final[dict[str, ValueType]] = {"per_second": _POSITIVE_NUMBER, "burst": _COUNT}
SCHEDULE_KEYS: Final[dict[str, ValueType]] = {
    "cron": _TEXT,
    "flow": _TEXT,
    "input": _ANYTHING,
    "timezone": _TEXT,
    "queue": _TEXT,
    "catch_up": ValueType(f"one of {', '.join(CATCH_UP)}", lambda value: value in CATCH_UP),
}
MODEL_KEYS: Final[dict[str, ValueType]] = {
    "model": _TEXT,
    "base_url": _ADDRESS,
    "key": _VARIABLE,
    "max_tokens": _COUNT,
    "max_retries": _COUNT_OR_ZERO,
    "timeout": _SECONDS,
    "stream": _FLAG,
    "prompt_cache": _FLAG,
    "options": _TABLE,
    "extra": _TABLE,
    "fallback": _TEXTS,
}
SECTIONS: Final[dict[str, dict[str, ValueType]]] = {
    "tools": {"modules": _TEXTS, "flows": _TEXTS, "strict_output": _FLAG_OR_TEXTS, "cache_ttl": _CACHE_TTL},
    "selector": {"model": ValueType(f"one of {', '.join(EMBEDDERS)}, or MODULE:CLASS", is_embedder_name)},
    "mcp_server": {
        "flows": _TEXTS,
        "stored": _FLAG,
        "tools": _FLAG,
        "gateway": _FLAG,
        "prefix": _FLAG,
        "max_listed": _COUNT_OR_ZERO,
        "instructions": _TEXT,
        "wait_for_servers": _SECONDS_OR_ZERO,
        "max_sessions": _COUNT,
        "task_only": _TEXTS,
        "prompts": _TEXTS,
        "resources": ValueType(
            f"a list of: {', '.join(RESOURCES)}",
            lambda value: isinstance(value, list) and all(item in RESOURCES for item in value),
        ),
    },
    "plans": {
        "offer": _FLAG,
        "approve": _one_of("destructive", "writes", "none"),
        "save": _one_of("ask", "allow"),
        "decide": _FLAG,
        "parallel": _one_of("none", "reads"),
        "max_result": _COUNT,
        "cpu_seconds": _SECONDS,
        "wall_seconds": _SECONDS,
        "effects": _EFFECTS,
    },
    "budget": {**_BUDGET_KEYS, "per": _one_of("day", "run"), "definitions": _BUDGETS},
    "undo": {
        "policy": _one_of("on_request", "on_failure"),
        "attempts": _COUNT,
        "delay": _SECONDS_OR_ZERO,
        "tools": _UNDOS,
    },
    "network": {"allow": _TEXTS},
    "store": {
        "url": _TEXT,
        "sync": _one_of("normal", "full"),
        "engine": _one_of("local", "dbos"),
        "retention": _RETENTION,
    },
    "workers": {
        "concurrency": _COUNT,
        "lease": _SECONDS,
        "grace": _SECONDS,
        "recoveries": _COUNT,
        "longest_block": _SECONDS,
        "in_server": _FLAG,
    },
    "claude": {
        "model": _TEXT,
        "base_url": _ADDRESS,
        "max_tokens": _COUNT,
        "max_retries": _COUNT_OR_ZERO,
        "timeout": _SECONDS,
        "stream": _FLAG,
        "prompt_cache": _FLAG,
    },
    "n8n": {"tools": _PHASE_TOOLS},
    "secrets": {"allow": _TEXTS, "http": _TEXTS},
    "limits": {
        "tools": _ANYTHING,  # a table; `read_worker_settings` checks it
        "tool_timeout": _SECONDS,
        "nodes": _COUNT,
        "nesting": _DEPTH,
        "file_size": _COUNT,
        "aliases": _COUNT,
        "log_lines": _COUNT_OR_ZERO,
        "log_characters": _COUNT_OR_ZERO,
    },
}
_LINE_KEY = re.compile(
    r"""^\s*((?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+))*)\s*="""
)
_BRACKETS = re.compile(
    r"""\"{3}(?:[^\\]|\\[\s\S])*?\"{3}|'{3}[\s\S]*?'{3}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|\#[^\n]*|[\[\]{}]"""
)
_ITEM = re.compile(r"'([^']*)'")
_LINE_TABLE = re.compile(r"^\s*\[\[?([^\[\]]+)\]")


def file_exists(file: Path) -> bool:
    """Return True if the file exists."""
    try:
        return is_file(file)
    except FileExistsError as error:
        raise ConfigError(f"{display_path(file)} {error}") from None
    except PermissionError as error:
        raise ConfigError(f"{display_path(file)}: cannot check if it exists: {error.strerror}") from error


def raise_all(errors: list[ConfigError]) -> None:
    """Raise all problems of several errors as one ConfigError, sorted by place; do nothing without errors."""
    if errors:
        problems = dict.fromkeys(problem for error in errors for problem in error.problems)
        raise ConfigError(
            sorted(problems, key=lambda item: (item.place.file, item.place.line) if item.place else ("", 0))
        )


class TomlFile:
    """A TOML file with checks and places of keys; an empty one without a path."""

    # Errors inside `collecting_errors` are collected, so that all tables are checked; `raise_collected` raises them.

    def __init__(self, path: Path | None) -> None:
        self.name = "" if path is None else display_path(path)
        self.text = ""
        self.data: dict[str, Any] = {}
        self._collected: list[ConfigError] = []
        if path is not None:
            self._load(path, self.name)

    @contextmanager
    def collecting_errors(self) -> Iterator[None]:
        """Collect a ConfigError of the block, for `raise_collected`."""
        try:
            yield
        except ConfigError as error:
            self._collected.append(error)

    def raise_collected(self) -> None:
        """Raise the collected errors as one ConfigError."""
        raise_all(self._collected)

    def _load(self, path: Path, name: str) -> None:
        try:
            raw = decoded(path.read_bytes(), name).removeprefix("\ufeff")
            self.text = raw.replace("\r\n", "\n").replace("\r", "\n")
            self.data = tomllib.loads(self.text)
        except OSError as error:
            raise ConfigError(f"{name} cannot be read: {error.strerror}") from error
        except InvalidFlow as error:
            raise ConfigError(error.problems) from None
        except tomllib.TOMLDecodeError as error:
            raise self._syntax_error(error) from None
        except RecursionError:
            raise self._depth_error() from None

    def _syntax_error(self, error: tomllib.TOMLDecodeError) -> ConfigError:
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

    def _depth_error(self) -> ConfigError:
        """Find where brackets are nested too deeply: tomllib gives no place for it."""
        depth = 0
        for token in _BRACKETS.finditer(self.text):
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
            if depth > MAX_DEPTH:
                place = Lines(self.name, self.text).place(token.start())
                return ConfigError(f"nested deeper than {MAX_DEPTH}", place=place)
        return ConfigError(f"nested deeper than {MAX_DEPTH}", place=Place(self.name, 1, 1))

    def get_table(self, key_path: tuple[str, ...]) -> dict[str, Any]:
        """Return the table at a path of keys, such as ("mcp", "files"); an empty one if there is none."""
        table = self.data
        for depth, part in enumerate(key_path, 1):
            table = table.get(part, {})
            if not isinstance(table, dict):
                name = ".".join(key_path[:depth])
                self.raise_at(key_path[:depth], f"{name} must be a table: [{name}]")
        return table

    def check_table(
        self, key_path: tuple[str, ...], keys: Mapping[str, ValueType], *, tables: Container[str] = ()
    ) -> dict[str, Any]:
        """Return a copy of the table at a path without inner `tables`, with every key known and value accepted."""
        table = {key: value for key, value in self.get_table(key_path).items() if key not in tables}
        errors = []
        for key, value in table.items():
            if key not in keys:
                errors.append(self.unknown_key_error((*key_path, key), keys))
                continue
            table[key] = value = keys[key].read(value)
            if not keys[key].accepts(value):
                message = f"[{'.'.join(key_path)}] {key}: must be {keys[key].expected}"
                place = self.place_of((*key_path, key))
                errors.append(ConfigError(message, place=replace(place, text="") if keys[key].is_hidden else place))
        raise_all(errors)
        return table

    def unknown_key_error(
        self, key_path: tuple[str, ...], known_keys: Mapping[str, Any] | tuple[str, ...]
    ) -> ConfigError:
        """Return the error for an unknown key, with what was probably meant."""
        suggestion = did_you_mean(key_path[-1], known_keys)
        hint = f"did you mean {suggestion}?" if suggestion else f"known are: {', '.join(known_keys)}"
        section = f"[{'.'.join(key_path[:-1])}] " if len(key_path) > 1 else ""
        return ConfigError(f"{section}unknown key {key_path[-1]!r}; {hint}", place=self.place_of(key_path))

    def raise_at(self, key_path: tuple[str, ...], message: str) -> NoReturn:
        """Raise ConfigError with a message and the place of a key."""
        raise ConfigError(message, place=self.place_of(key_path))

    def place_of(self, key_path: tuple[str, ...]) -> Place:
        """Return the place of a key, or of an entry of its list; without them, of the nearest key around it."""
        lines = self.text.splitlines()
        # Look for the whole path first, then for shorter beginnings of it.
        for length in range(len(key_path), 0, -1):
            table_path: tuple[str, ...] = ()
            for number, line in enumerate(lines, 1):
                match = _LINE_TABLE.match(line)
                if match:
                    table_path = path = _key_parts(f"[{match[1]}]")
                else:
                    match = _LINE_KEY.match(line)
                    if not match:
                        continue
                    path = table_path + _key_parts(f"{match[1]} = 0")
                if path[:length] == key_path[:length]:
                    key = Place(self.name, number, match.start(1) + 1, line)
                    return self._entry_of(key, key_path[-1]) or key
        return Place(self.name, 1, 1, lines[0] if lines else "")

    def _entry_of(self, key: Place, name: str) -> Place | None:
        """Return the place of an entry of the list or the inline table that a key sets; None if it has no such text."""
        lines = self.text.splitlines()
        for number, line in enumerate(lines[key.line - 1 :], key.line):
            is_later = number > key.line and (_LINE_TABLE.match(line) or _LINE_KEY.match(line))
            start = key.column + line[key.column :].find("=") if number == key.line else 0
            if is_later or line.startswith("["):
                return None
            for mark in (f'"{name}"', f"'{name}'"):
                if (at := line.find(mark, start)) >= 0:
                    return Place(self.name, number, at + 1, line)
        return None

    def line_of(self, key_path: tuple[str, ...]) -> str:
        """Return the place of a key as `file:line`."""
        place = self.place_of(key_path)
        return f"{place.file}:{place.line}"


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
