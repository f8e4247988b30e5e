"""The MCP servers in the configuration file of another program, as settings of ours.

`read_servers_file` takes JSON with comments (Claude, VS Code, Cursor, Windsurf, Cline, Roo, Gemini, Copilot, Zed,
OpenCode, Amazon Q), YAML (Continue, LibreChat, Goose) and TOML (Codex). A part that cannot be used is left out by name.
A setting of safety, such as tools that are switched off, is obeyed, or the server is left out. To add a key, add it to
a table here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

from ..duration import MILLISECOND, SECOND, read_duration
from ..errors import ConfigError, InvalidFlow, Place, display_path
from ..fast_dataclass import dataclass
from ..source.document import Document
from ..source.load import decoded, load, read_bytes
from ..source.locations import Limits
from ..values import did_you_mean, distinct_names
from .settings import INPUT_PREFIX, SECRET_INPUT_PREFIX
from .toml import SERVER_KEYS, TomlFile, file_exists

_SECTIONS: Final = (
    ("mcpServers",), ("servers",), ("mcp", "servers"), ("mcp.servers",), ("context_servers",), ("mcp_servers",),
    ("extensions",), ("mcp",),
)  # fmt: skip
"""The paths of an object of servers; the last ones belong to Codex, Goose and OpenCode."""
_IGNORED: Final = frozenset(
    ("type", "transport", "transportType", "autoApprove", "alwaysAllow", "description", "name", "model", "title",
     "icon", "iconPath", "version", "oauth", "auth", "authorization_token", "roots", "dev", "remote", "serverName",
     "faviconUrl", "sourceFile", "sourceSlug", "targetAudience", "targetServiceAccount",
     "sandbox", "settings", "source", "instructions", "serverInstructions", "tags", "metadata", "gallery", "inputs",
     "notes", "trust", "sampling", "watchPaths", "extensionName", "displayName", "bundled", "available", "chatMenu",
     "startup", "requiresOAuth", "fetch", "scope", "url_verification", "alwaysLoad", "required",
     "supports_parallel_tool_calls", "experimental_environment", "oauth_resource", "scopes")
)  # fmt: skip
"""Keys of other programs that change nothing of what we do, or only what a person approves."""
_READ: Final = frozenset(
    ("command", "cmd", "args", "env", "environment", "envs", "envFile", "env_vars", "env_keys", "cwd", "url", "uri",
     "httpUrl", "serverUrl", "headers", "http_headers", "env_http_headers", "bearer_token_env_var", "timeout",
     "connect_timeout", "initTimeout", "networkTimeout", "startup_timeout_sec", "startup_timeout_ms",
     "tool_timeout_sec", "mode", "questions", "disabled", "enabled", "isActive", "tools", "exclude_tools",
     "disabledTools", "disabled_tools", "excludeTools", "enabledTools", "enabled_tools", "includeTools",
     "include_tools", "available_tools", "sandboxEnabled", "customUserVars", "headersHelper", "authProviderType",
     "requestOptions", "apiKey", "connectionTimeout", "request_timeout_ms", "timeoutMs", "default_tools_approval_mode")
)  # fmt: skip
"""Keys that are read."""
_KNOWN: Final = _IGNORED | _READ
_TYPES: Final = frozenset(("stdio", "local", "http", "https", "streamablehttp", "httpstream", "streamable", "remote"))
"""The values of `type` of servers that can be used, without `-` and `_`."""
_ALLOWED_TOOLS: Final = ("tools", "enabledTools", "enabled_tools", "includeTools", "include_tools", "available_tools")
_EXCLUDED_TOOLS: Final = ("exclude_tools", "disabledTools", "disabled_tools", "excludeTools")
_ENV: Final = ("env", "environment", "envs")
_DECISIVE: Final = frozenset(
    ("command", "args", "cwd", "url", "headers", "http_headers", "envFile", "disabled", "enabled", "isActive",
     *_ENV, *_ALLOWED_TOOLS, *_EXCLUDED_TOOLS)
)  # fmt: skip
"""Keys without which a server would be another one, or could do more: one that is close to them leaves it out."""
_ADDRESSES: Final = ("httpUrl", "url", "serverUrl", "uri")
_HEADERS: Final = ("headers", "http_headers")
_GEMINI: Final = frozenset(("httpUrl", "includeTools", "excludeTools"))
"""Keys of Gemini, which also reads `$NAME`."""
_MILLISECONDS: Final = frozenset((".gemini", ".amazonq", ".kiro", ".copilot", ".opencode"))
"""Folders of programs whose `timeout` is in milliseconds."""
_SECONDS: Final = frozenset(("autoApprove", "alwaysAllow"))
"""Keys of Cline and Roo, whose `timeout` is in seconds, up to one hour."""
_FILE_LIMITS: Final = Limits(
    size=2_000_000, repeats=True
)  # keys repeated in other parts of the file belong to other programs
_MAX_ENV_FILE: Final = 1_000_000
_MAX_SERVERS: Final = 1_000
_MAX_KEYS: Final = 200  # of one server
_VARIABLE: Final = re.compile(
    r"\$\{\{\s*secrets\.(?P<secret>\w+)\s*\}\}|\$\{(?P<braced>[^{}]*)\}|\$(?P<bare>[A-Za-z_]\w*)|\{(?P<open>(?:env|file):[^{}]+)\}"
)
"""`${{ secrets.NAME }}` of Continue, `${NAME}`, `$NAME` of Gemini, and `{env:NAME}` of OpenCode."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACEHOLDER: Final = re.compile(r"\$?\{\{\s*[\w.]+\s*\}\}")
_ENV_LINE: Final = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*?)\s*$")


class _LeftOut(Exception):
    """A server cannot be used: the key that is wrong (None: the server itself) and why."""

    def __init__(self, key: str | None, why: str) -> None:
        super().__init__(why)
        self.key, self.why = key, why


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A value that the file leaves to a person: the variable that holds it, and what it is."""

    variable: str
    description: str
    is_secret: bool
    has_default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServersFile:
    """The servers of a file, and the reasons why others are left out."""

    file: Path
    # The settings of each server that can be used, as `[mcp.NAME]` has them; `${NAME}` unread.
    servers: Mapping[str, Mapping[str, Any]]
    # Why each other server is left out, by name, with the place.
    left_out: Mapping[str, str]
    warnings: tuple[str, ...]
    # The inputs that the servers need.
    inputs: Mapping[str, Input]
    # What returns the place of a server, or of a path of keys in it.
    places: Mapping[str, Callable[..., Place]] = field(default_factory=dict)
    # Why nothing of the file can be read.
    fault: str | None = None
    # What the file says about servers, as it is written.
    written: Any = None


def read_servers_file(file: Path) -> ServersFile:
    """Read the servers in the configuration of another program; a fault is data, never an error."""
    name = display_path(file)
    empty: dict[str, Any] = {"file": file, "servers": {}, "left_out": {}, "warnings": (), "inputs": {}}
    try:
        if not file_exists(file):
            return ServersFile(**empty, fault=f"{name} does not exist")
        document = _load(file, name)
    except (InvalidFlow, ConfigError) as error:
        return ServersFile(**empty, fault=_first(error.problems))
    return _Reader(file, document).read()


def _first(problems: Any) -> str:
    problem = problems[0]
    place = "" if problem.place is None else f"{_format_place(problem.place)}: "
    return f"{place}{problem.message}"


def _load(file: Path, name: str) -> Document:
    suffix = file.suffix.lower()
    if suffix != ".toml":
        return load(file, name=name, form="yaml" if suffix in (".yaml", ".yml") else "jsonc", limits=_FILE_LIMITS)
    import tomllib

    try:
        text = decoded(read_bytes(file, _FILE_LIMITS.size), name)
        return Document(data=tomllib.loads(text), file=name, text="", form="toml")  # without places
    except (OSError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{name} cannot be read: {error}") from error


def _format_place(place: Place) -> str:
    return f"{place.file}:{place.line}:{place.column}"


class _Reader:
    """Reads one file."""

    def __init__(self, file: Path, document: Document) -> None:
        self.file, self.document = file, document
        self.directory = file.resolve().parent
        # The folder of one program is in the workspace: `.vscode/mcp.json`, `.kiro/settings/mcp.json`.
        folders = [path for path in (self.directory, self.directory.parent) if path.name in _TOOL_FOLDERS]
        self.workspace = folders[0].parent if folders else self.directory
        self.program = folders[0].name if folders else _PROGRAM_OF_FILE.get(file.name, "")
        self.servers: dict[str, dict[str, Any]] = {}
        self.left_out: dict[str, str] = {}
        self.places: dict[str, Callable[..., Place]] = {}
        self.warnings: list[str] = []
        self.inputs: dict[str, Input] = {}
        self._declared: dict[str, Mapping[str, Any]] = {}

    def read(self) -> ServersFile:
        """Return what the file says."""
        sections = list(self._sections())
        data = self.document.data
        fault = None
        if not sections:
            known = ", ".join(dict.fromkeys(".".join(path) for path in _SECTIONS[:5]))
            fault = f"{self._place(())}: lists no MCP servers; they must be in an object under one of: {known}"
        repeated = {} if self.document.form == "toml" else self.document.repeated
        for path, written in sections:
            if path in repeated:
                fault = f"{_format_place(repeated[path])}: {'.'.join(path)} is defined twice"
                continue
            if len(written) > _MAX_SERVERS:
                fault = f"{self._place(path)}: lists more than {_MAX_SERVERS:,} servers"
                continue
            self._declare_inputs(path)
            self._read_section(path, written, repeated)
        return ServersFile(
            file=self.file,
            servers=self.servers,
            left_out=self.left_out,
            warnings=tuple(self.warnings),
            inputs=self.inputs,
            places=self.places,
            fault=fault,
            written=[[list(path), written] for path, written in sections]
            + [[data.get(key) for key in ("inputs", "mcp", "tools")] if isinstance(data, dict) else None],
        )

    def _sections(self) -> Iterator[tuple[tuple[str, ...], Any]]:
        """Yield each object of servers with its path."""
        data, found = self.document.data, False
        for path in _SECTIONS:
            value: Any = data
            for part in path:
                value = value.get(part) if isinstance(value, dict) else None
            if path in _SECTIONS[6:] and isinstance(value, dict | list):
                value = value if isinstance(value, dict) else {}
                value = {
                    key: entry for key, entry in value.items() if key not in ("servers", "inputs") and _is_server(entry)
                }
            if isinstance(value, (dict, list)) and (value or path in _SECTIONS[:6]):
                found = True
                yield path, value
        # Plugins write the servers without an object around them.
        if not found and isinstance(data, dict) and data and all(map(_is_server, data.values())):
            yield (), data

    def _declare_inputs(self, path: tuple[str, ...]) -> None:
        value: Any = self.document.data
        for part in path[:-1]:
            value = value[part]
        declared = value.get("inputs") if isinstance(value, dict) else None
        for item in declared if isinstance(declared, list) else ():
            if isinstance(item, dict) and isinstance(item.get("id"), str):
                self._declared.setdefault(item["id"], item)

    def _read_section(self, path: tuple[str, ...], written: Any, repeated: Mapping[tuple[str, ...], Place]) -> None:
        entries: list[tuple[Any, Any]] = (
            list(written.items())
            if isinstance(written, dict)
            else [(entry.get("name") if isinstance(entry, dict) else None, entry) for entry in written]
        )
        entries = [(name, _flattened(entry)) for name, entry in entries]
        names = distinct_names([name for name, _ in entries], 64)
        refused = self._refused_names()
        repeats: dict[tuple[Any, ...], str] = {}  # what is defined twice in a server
        for twice, place in repeated.items():
            key = f"{twice[-1]} " if len(twice) > len(path) + 1 else ""
            repeats.setdefault(twice[: len(path) + 1], f"{_format_place(place)}: {key}is defined twice")
        for position, (written_name, entry) in enumerate(entries):
            name = names.get(written_name, f"server-{position + 1}")
            where = (*path, written_name if isinstance(written, dict) else position)
            if name in self.servers or name in self.left_out:
                self.warnings.append(f"{self._place(where)}: server {name!r} is defined twice; the first one is used")
                continue
            try:
                if isinstance(written, dict) and where in repeats:
                    raise _LeftOut("", repeats[where])
                settings = None if refused(written_name) else self._settings(entry, written_name)
            except _LeftOut as error:
                prefix = "" if error.key == "" else f"{self._place(where, error.key)}: "
                self.left_out[name] = prefix + error.why
                continue
            except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
                self.left_out[name] = f"{self._place(where)}: is not written as its program writes it"
                continue
            if settings is None:
                continue
            if name != written_name and isinstance(written_name, str):
                self.warnings.append(f"{self._place(where)}: server {written_name!r} is called {name!r} here")
            self._warn_of_unread(name, where, entry)
            self.servers[name] = settings
            self.places[name] = partial(self._locate_setting, where, entry)

    def _warn_of_unread(self, name: str, where: tuple[Any, ...], entry: Mapping[str, Any]) -> None:
        """Warn of each part of a server that is not read."""
        unknown = [key for key in entry if key not in _KNOWN and not str(key).startswith(("_", "$", "/", "#", "x-"))]
        known = f"known are: {', '.join(SERVER_KEYS)}"
        unread = {
            key: f"unknown key {key!r} is not read; " + (f"did you mean {near!r}?" if (near := _near(key)) else known)
            for key in unknown
        }
        options = entry.get("requestOptions")
        if isinstance(options, dict) and (others := [str(key) for key in options if key != "headers"]):
            unread["requestOptions"] = f"only headers of requestOptions are read, not {', '.join(others)}"
        kind = entry.get("type")
        if isinstance(kind, str) and re.sub(r"[-_]", "", kind.lower()) not in _TYPES:
            unread["type"] = f"type {kind!r} is not known; the server is read by its command or its address"
        for key in ("default_tools_approval_mode", "tools"):
            if "prompt" in _approval_modes(entry.get(key)):
                unread[key] = "the file wants a person to approve calls; only definitions ask for an approval here"
        for key, message in unread.items():
            self.warnings.append(f"{self._place((*where, key))}: server {name!r}: {message}")

    def _refused_names(self) -> Callable[[Any], bool]:
        """Return what says which servers the lists `mcp.allowed` and `mcp.excluded` of Gemini switch off."""
        data = self.document.data
        lists = data.get("mcp") if isinstance(data, dict) else None
        allowed, excluded = (lists.get(key) if isinstance(lists, dict) else None for key in ("allowed", "excluded"))
        for key, names in (("allowed", allowed), ("excluded", excluded)):
            # An entry of this name is a server.
            if names is not None and not isinstance(names, (list, dict)):
                why = f"{self._place(('mcp', key))}: mcp.{key} must be a list of names of servers"
                return partial(_refuse, why)
        return lambda name: (
            (isinstance(allowed, list) and name not in allowed) or (isinstance(excluded, list) and name in excluded)
        )

    def _place(self, path: tuple[Any, ...], key: str | None = None) -> str:
        """Return `file:line:column` of a value, or of a key of it."""
        return _format_place(self._locate(*path, *([key] if key is not None else [])))

    def _locate(self, *path: Any) -> Place:
        if self.document.form == "toml":
            return self._toml.place_of(tuple(map(str, path)))
        return self.document.locate("".join(f"[{part!r}]" for part in path), at_key=True)

    def _locate_setting(self, where: tuple[Any, ...], entry: Mapping[str, Any], *path: Any) -> Place:
        """Return the place of a setting, or of a tool that it names, in the spelling of the file."""
        if len(path) == 2 and path[0] in ("tools", "exclude_tools"):
            for key in (*_ALLOWED_TOOLS, *_EXCLUDED_TOOLS):
                names = entry.get(key)
                if isinstance(names, (dict, list)) and path[1] in names:
                    path = (key, names.index(path[1]) if isinstance(names, list) else path[1])
                    break
                if names == path[1]:
                    path = (key,)
                    break
        return self._locate(*where, *path)

    @cached_property
    def _toml(self) -> TomlFile:
        return TomlFile(self.file)

    def _settings(self, entry: Any, name: Any) -> dict[str, Any] | None:
        """Return the settings of one server; None if the file switches it off."""
        if not isinstance(entry, dict):
            raise _LeftOut(None, "must be an object with a command or a url")
        if _is_off(entry):
            return None
        if len(entry) > _MAX_KEYS:
            raise _LeftOut(None, f"has more than {_MAX_KEYS} keys")
        for key in entry:
            if key not in _KNOWN and not str(key).startswith(("_", "$", "/", "#", "x-")):
                near = _near(key)
                # Another key changes little, or is one of another program.
                if near in _DECISIVE and abs(len(near) - len(str(key))) <= 2:
                    raise _LeftOut(key, f"unknown key {key!r}; did you mean {near!r}?")
        if entry.get("sandboxEnabled") is True:
            raise _LeftOut("sandboxEnabled", "the file demands a sandbox, and there is none here")
        if entry.get("customUserVars"):
            raise _LeftOut("customUserVars", "its values belong to the users of another program")
        if entry.get("authProviderType") not in (None, "dynamic_discovery"):
            raise _LeftOut("authProviderType", "its login is one of another program; write headers with ${NAME}")
        settings = _transport(entry)
        if entry.get("headersHelper") and "url" in settings:
            message = (
                "a command makes the headers of this server, and no such command is run; write headers with ${NAME}"
            )
            raise _LeftOut("headersHelper", message)
        is_gemini = self.program == ".gemini" or not _GEMINI.isdisjoint(entry) or isinstance(entry.get("trust"), bool)
        if "command" in settings:
            self._add_process(settings, entry, is_gemini)
        else:
            self._add_headers(settings, entry)
        tool_filter = _tool_filter(entry, self._tools_of_file(name))
        if tool_filter is None:
            return None
        settings |= tool_filter
        settings |= _times(entry, is_gemini or self.program in _MILLISECONDS)
        for key in ("mode", "questions"):
            if key in entry:
                settings[key] = entry[key]
        if entry.get("trust") is not None and not isinstance(entry["trust"], bool):
            settings["trust"] = entry["trust"]
        filled: dict[str, Any] = {key: self._fill(key, value, is_gemini) for key, value in settings.items()}
        for key, value in filled.items():
            if not SERVER_KEYS[key].accepts(value):
                raise _LeftOut(key, f"{key} must be {SERVER_KEYS[key].expected}")
        return filled

    def _tools_of_file(self, name: Any) -> tuple[list[str] | None, list[str]]:
        """Return which tools of a server the file allows (None: all) and excludes, apart from its entry."""
        tools = self.document.data.get("tools") if isinstance(self.document.data, dict) else None
        if isinstance(tools, dict) and self.program == ".opencode":
            excluded = [pattern for pattern, is_on in tools.items() if is_on is False and isinstance(pattern, str)]
            # A tool is called SERVER_TOOL there, so a pattern may cover a whole server.
            if any(fnmatchcase(f"{name}_", pattern) for pattern in excluded):
                return [], []
            start = f"{name}_"
            return None, [pattern.removeprefix(start) for pattern in excluded if pattern.startswith(start)]
        if not isinstance(tools, list) or not all(isinstance(tool, str) for tool in tools):
            return None, []
        # Agents of Amazon Q and Kiro list `@SERVER`, `@SERVER/TOOL` or `*`. Other programs have other lists.
        is_agent = self.program in (".amazonq", ".kiro") or self.directory.name in ("cli-agents", "agents")
        if not is_agent and not any(tool.startswith("@") for tool in tools):
            return None, []
        if "*" in tools or f"@{name}" in tools:
            return None, []
        return [tool.removeprefix(f"@{name}/") for tool in tools if tool.startswith(f"@{name}/")], []

    def _add_process(self, settings: dict[str, Any], entry: Mapping[str, Any], is_gemini: bool) -> None:
        """Add the environment and the directory of a program."""
        env = _texts_by_name(entry, _ENV)
        for key in ("env_vars", "env_keys"):
            listed = entry.get(key) or []
            items = listed if isinstance(listed, list) else [None]
            found = (item.get("name") if isinstance(item, dict) else item for item in items)
            names = [item if isinstance(item, str) else "" for item in found]
            if not all(map(_NAME.fullmatch, names)):
                raise _LeftOut(key, f"{key} must be a list of names of environment variables")
            env = {**{name: f"${{{name}:-}}" for name in names}, **env}
        file = entry.get("envFile")
        if file is not None:
            env = {**self._env_file(file), **env}
        if env:
            settings["env"] = env
        cwd = entry.get("cwd")
        if isinstance(cwd, str):
            cwd = os.path.expanduser(str(self._fill("cwd", cwd, is_gemini)))
            starts_with_variable = cwd.startswith("${")
            cwd = cwd if starts_with_variable or self.workspace == self.directory else str(self.workspace / cwd)
        elif cwd is None and self.workspace != self.directory:
            cwd = str(self.workspace)
        if cwd is not None:
            settings["cwd"] = cwd

    def _add_headers(self, settings: dict[str, Any], entry: Mapping[str, Any]) -> None:
        options = entry.get("requestOptions")
        if options is not None and not isinstance(options, dict):
            raise _LeftOut("requestOptions", "requestOptions must be an object")
        headers = _texts_by_name(options, _HEADERS) if options else {}
        headers |= _texts_by_name(entry, _HEADERS)
        if entry.get("apiKey") is not None and "authorization" not in map(str.lower, headers):
            headers["Authorization"] = f"Bearer {_text(entry['apiKey'], 'apiKey')}"
        for name, variable in _texts_by_name(entry, ("env_http_headers",)).items():
            if not _NAME.fullmatch(variable):
                raise _LeftOut("env_http_headers", "env_http_headers must hold names of environment variables")
            headers[name] = f"${{{variable}}}"
        token = entry.get("bearer_token_env_var")
        if token is not None:
            if not isinstance(token, str) or not _NAME.fullmatch(token):
                raise _LeftOut("bearer_token_env_var", "must be the name of an environment variable")
            headers["Authorization"] = f"Bearer ${{{token}}}"
        if headers:
            settings["headers"] = headers

    def _env_file(self, name: Any) -> dict[str, str]:
        """Return the variables in an `envFile`."""
        if not isinstance(name, str):
            raise _LeftOut("envFile", "envFile must be text, the path of a file")
        path = self.workspace / os.path.expanduser(self._fill("envFile", name))
        try:
            if not path.is_file():
                raise _LeftOut("envFile", f"envFile: {name!r} is not a file")
            text = decoded(read_bytes(path, _MAX_ENV_FILE + 1), name).removeprefix("\ufeff")
        except (OSError, InvalidFlow) as error:
            raise _LeftOut("envFile", f"envFile: {name!r} cannot be read") from error
        if len(text) > _MAX_ENV_FILE:
            raise _LeftOut("envFile", f"envFile: {name!r} is larger than {_MAX_ENV_FILE:,} bytes")
        values = {}
        for line in text.splitlines():
            match = None if line.lstrip().startswith("#") else _ENV_LINE.match(line)
            if match:
                value = match[2]
                if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
                    value = value[1:-1]
                elif " #" in value:
                    value = value.partition(" #")[0].rstrip()
                values[match[1]] = value
        return values

    def _fill(self, key: str, value: Any, is_gemini: bool = False) -> Any:
        """Return a setting with the variables of other programs in our form, `${NAME}`."""
        if isinstance(value, (list, tuple)):
            return [self._fill(key, item, is_gemini) for item in value]
        if isinstance(value, dict):
            return {name: self._fill(key, item, is_gemini) for name, item in value.items()}
        if not isinstance(value, str):
            return value

        def read(match: re.Match[str]) -> str:
            if match["secret"] is not None:
                return f"${{{match['secret']}}}"
            if match["braced"] is not None:
                return self._variable(key, match["braced"], match[0])
            if match["open"] is not None:
                return self._variable(key, match["open"], match[0]) if self.program == ".opencode" else match[0]
            name = match["bare"]
            if not (is_gemini or name.startswith("COPILOT_MCP_")):
                return match[0]
            # An unset name stays as it is where it may be no variable: in a program's arguments, or in `pa$word`.
            is_required = key not in ("command", "args") and name.isupper()
            return f"${{{name}}}" if is_required else f"${{{name}:-${name}}}"

        filled = _VARIABLE.sub(read, value)
        for hole in _PLACEHOLDER.finditer(filled):
            if key != "args" or hole[0].startswith("$"):
                raise _LeftOut(key, f"{hole[0]} is filled in by another program only; write ${{NAME}}")
        return filled

    def _variable(self, key: str, text: str, written: str) -> str:
        kind, colon, rest = text.partition(":")
        if text in ("workspaceFolder", "workspaceRoot", "workspacePath", "cwd") or kind == "CLAUDE_PROJECT_DIR":
            return str(self.workspace)
        if text == "extensionPath" or kind == "CLAUDE_PLUGIN_ROOT":
            return str(self.directory)
        if text == "workspaceFolderBasename":
            return self.workspace.name
        if text == "userHome":
            return os.path.expanduser("~")
        if text in ("pathSeparator", "/"):
            return os.sep
        if not colon or rest.startswith("-"):
            return written
        if kind == "env":
            return f"${{{rest}}}"
        if kind == "input":
            return self._input(key, rest)
        if _NAME.fullmatch(kind):
            raise _LeftOut(key, f"{written} is filled in by another program only; write ${{NAME}}")
        return written

    def _input(self, key: str, name: str) -> str:
        declared = self._declared.get(name, {})
        kind = declared.get("type", "promptString")
        if kind not in ("promptString", "pickString"):
            raise _LeftOut(key, f"${{input:{name}}} runs a command of another program")
        is_secret = declared.get("password") is True
        prefix = SECRET_INPUT_PREFIX if is_secret else INPUT_PREFIX
        variable = prefix + re.sub(r"[^A-Za-z0-9]", "_", name).upper()
        description = declared.get("description")
        default = declared.get("default")
        usable = isinstance(default, str) and default != "" and not re.search(r"[{}$]", default)
        self.inputs[variable] = Input(
            variable=variable,
            description=description if isinstance(description, str) else name,
            is_secret=is_secret,
            has_default=usable,
        )
        return f"${{{variable}:-{default}}}" if usable else f"${{{variable}}}"


_TOOL_FOLDERS: Final = (
    ".vscode", ".cursor", ".roo", ".zed", ".gemini", ".amazonq", ".kiro", ".github", ".codex", ".junie", ".continue",
    ".copilot", ".opencode", ".kilocode", ".windsurf", ".claude",
)  # fmt: skip
"""Folders of a project that hold the configuration of one program."""
_PROGRAM_OF_FILE: Final = {
    "opencode.json": ".opencode", "opencode.jsonc": ".opencode", "gemini-extension.json": ".gemini",
}  # fmt: skip
"""The program of files that need no folder."""


def _flattened(entry: Any) -> Any:
    """Return an entry whose `transport` is an object with the keys of that object."""
    inner = entry.get("transport") if isinstance(entry, dict) else None
    return {**inner, **{key: entry[key] for key in entry if key != "transport"}} if isinstance(inner, dict) else entry


def _near(key: Any) -> str | None:
    """Return the known key that an unknown one is most like."""
    return did_you_mean(str(key), (*SERVER_KEYS, *sorted(_READ)))


def _refuse(why: str, _: Any) -> bool:
    """Leave out a server for a reason that has its place already."""
    raise _LeftOut("", why)


def _approval_modes(value: Any) -> list[Any]:
    """Return the `approval_mode` of each tool in a table of Codex, or the one of a server."""
    return [tool.get("approval_mode") for tool in value.values()] if _has_modes(value) else [value]


def _has_modes(value: Any) -> bool:
    """Return True for the table `tools` of Codex, which says how calls are approved and switches nothing off."""
    tools = value.values() if isinstance(value, dict) else ()
    return bool(tools) and all(isinstance(tool, dict) and list(tool) == ["approval_mode"] for tool in tools)


def _is_server(entry: Any) -> bool:
    return isinstance(entry, dict) and not {"command", "cmd", "url", "httpUrl", "serverUrl", "uri"}.isdisjoint(entry)


def _is_off(entry: Mapping[str, Any]) -> bool:
    """Return True if a server is switched off."""
    for key, off in (("disabled", True), ("enabled", False), ("isActive", False)):
        value = entry.get(key)
        if value is not None and not isinstance(value, bool):
            raise _LeftOut(key, f"{key} must be true or false")
        if value is off:
            return True
    return False


def _transport(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `command` and `args`, or the `url` of a server."""
    command: Any = entry.get("command", entry.get("cmd"))
    args: Any = entry.get("args")
    if isinstance(command, dict):  # of Zed
        args = command.get("args", args)
        command = command.get("path")
    if isinstance(command, list):
        args = [*command[1:], *(args or [])]
        command = command[0] if command else None
    addresses = [entry[key] for key in _ADDRESSES if entry.get(key) not in (None, "")]
    command = None if command == "" else command
    if (command is None) == (not addresses):
        raise _LeftOut(None, "needs either a command or a url")
    kind = entry.get("type", entry.get("transport", entry.get("transportType")))
    kind = str(kind).lower().replace("_", "-") if isinstance(kind, str) else None
    key = next((key for key in ("type", "transport", "transportType") if key in entry), None)
    if kind == "sse":
        raise _LeftOut(key, "type sse is the transport of 2024; use the server's streamable HTTP address")
    if kind in ("ws", "websocket", "builtin", "platform", "sse-only"):
        raise _LeftOut(key, f"type {kind} is not supported; use a command or an http address")
    if command is not None:
        settings: dict[str, Any] = {"command": command}
        if args is not None:
            if not isinstance(args, list):
                raise _LeftOut("args", "args must be a list of texts")
            settings["args"] = [_text(value, "args") for value in args]
        return settings
    if "httpUrl" not in entry and len(set(map(str, addresses))) > 1:
        raise _LeftOut(None, "has two different addresses")
    return {"url": addresses[0]}


def _text(value: Any, key: str) -> str:
    """Return a value of `args`, `env` or `headers` as the text that a program gets."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if not isinstance(value, str):
        raise _LeftOut(
            key, f"{key} must hold texts and numbers, not {'null' if value is None else type(value).__name__}"
        )
    return value


def _texts_by_name(entry: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, str]:
    result: dict[str, str] = {}
    command = entry.get("command")
    tables = [(key, entry.get(key)) for key in keys]
    if "env" in keys and isinstance(command, dict):
        tables.insert(0, ("command", command.get("env")))
    for key, table in tables:
        if table is None:
            continue
        if not isinstance(table, dict):
            raise _LeftOut(key, f"{key} must be a table of texts")
        result |= {name: _text(value, key) for name, value in table.items() if value is not None}
    return result


def _tool_filter(entry: Mapping[str, Any], of_file: tuple[list[str] | None, list[str]]) -> dict[str, Any] | None:
    """Return which tools of a server may be used, None if the file allows none."""

    # A filter that cannot be read leaves the server out.
    allowed, excluded = of_file
    if allowed == []:
        return None
    for key in _ALLOWED_TOOLS:
        value = entry.get(key)
        if isinstance(value, dict) and all(isinstance(item, bool) for item in value.values()):
            excluded += [name for name, is_on in value.items() if not is_on]
        elif value is not None and not _has_modes(value):
            names = _names(value, key)
            allowed = names if allowed is None else [name for name in allowed if name in names or "*" in names]
    for key in _EXCLUDED_TOOLS:
        if entry.get(key) is not None:
            excluded += _names(entry[key], key)
    result: dict[str, Any] = {}
    if allowed is not None and allowed != ["*"]:
        result["tools"] = allowed
    if excluded:
        result["exclude_tools"] = excluded
    return result


def _names(value: Any, key: str) -> list[str]:
    if isinstance(value, str) and not re.search(r"[,\s]", value):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise _LeftOut(key, f"{key} must be a list of names of tools")
    if limited := [name for name in value if "(" in name]:
        raise _LeftOut(key, f"{key}: {limited[0]!r} limits the arguments of a tool, which is not possible here")
    return list(dict.fromkeys(value))


_TIMES: Final = {
    "tool_timeout_sec": ("timeout", 1.0),
    "networkTimeout": ("timeout", 1.0),
    "startup_timeout_sec": ("connect_timeout", 1.0),
    "startup_timeout_ms": ("connect_timeout", 0.001),
    "initTimeout": ("connect_timeout", 0.001),
    "request_timeout_ms": ("timeout", 0.001),
    "timeoutMs": ("timeout", 0.001),
    "connectionTimeout": ("connect_timeout", 0.001),
    "connect_timeout": ("connect_timeout", 1.0),
}
"""Keys with a unit of their own: the setting, and how many seconds one unit is."""


def _times(entry: Mapping[str, Any], is_milliseconds: bool) -> dict[str, Any]:
    """Return the limits of time in seconds."""
    result: dict[str, Any] = {}
    for key, (target, factor) in _TIMES.items():
        value = entry.get(key)
        if value is not None:
            result[target] = _seconds(value, key, factor)
    timeout = entry.get("timeout")
    if isinstance(timeout, dict):  # of OpenCode
        for key, target in (("startup", "connect_timeout"), ("request", "timeout")):
            if timeout.get(key) is not None:
                result[target] = _seconds(timeout[key], "timeout", MILLISECOND)
    elif timeout is not None:
        seconds = _seconds(timeout, "timeout")
        if isinstance(timeout, str):
            return {**result, "timeout": seconds}
        # Programs differ in the unit. Their own keys decide; without one, 1000 or more means milliseconds.
        is_short = seconds < 1000 or (seconds <= 3600 and not _SECONDS.isdisjoint(entry))
        result["timeout"] = seconds / 1000 if is_milliseconds or not is_short else seconds
    return result


def _seconds(value: Any, key: str, unit: float = SECOND) -> float:
    value = read_duration(value, unit)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e12:
        raise _LeftOut(key, f"{key} must be a number above 0")
    return float(value * unit) if unit != SECOND else value
