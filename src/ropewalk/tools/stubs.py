"""Tools as Python stubs: a signature, a docstring, and a TypedDict for each object.

A model reads a stub with fewer tokens than a JSON Schema, and writes calls that look like it: `stub`. Type checkers and
editors read the stub of a whole module: `servers_stub`. That one says everything, and every type in it is complete.
"""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Mapping
from typing import Any, Final

from ..source.document import escape_invisible
from ..values import Json
from .tool import Tool

_NAMES: Final[Mapping[str, str]] = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "array": "list",
    "object": "dict",
}
_DEEPEST: Final = 4  # objects in objects
_MAX_DESCRIPTION: Final = 300  # characters of a description
_MOST_CHOICES: Final = 12
_MOST_PARTS: Final = 200  # of `allOf` in one schema, whose references may lead back
_TYPING: Final = ("Any", "Literal", "NotRequired", "TypedDict", "Unpack")
_LITERALS: Final = (str, bool, int, type(None))


def stub(tool: Tool, name: str) -> str:
    """Return the stub of a tool."""
    class_names: set[str] = set()  # arguments and result share them, because they are in one file
    types = _Types(tool.input_schema, class_names)
    schema = types.followed(tool.input_schema)
    owner = "".join(part.title() for part in re.split(r"\W|_", name))
    required = schema.get("required") or ()
    properties: dict[str, Any] = schema.get("properties") or {}
    parameters, more = [], []
    for key in sorted(properties, key=lambda key: key not in required):
        if not key.isidentifier() or keyword.iskeyword(key):
            more.append(key)
            continue
        inner = types.followed(properties[key])
        text = f"{key}: {types.annotation(properties[key], owner + key.title())}"
        if key not in required:
            text += f" = {inner['default']!r}" if "default" in inner else " = ..."
        parameters.append(text)
    # TypedDicts come before the function that uses them, as in a Python file.
    results = _Types(tool.output_schema or {}, class_names)
    gives = results.annotation(tool.output_schema, f"{owner}Result") if tool.output_schema else "Any"
    lines = [*types.classes, *results.classes]
    lines.append(f"async def {name}({'*, ' if parameters else ''}{', '.join(parameters)}) -> {gives}:")
    lines.append(textwrap.indent(_docstring(tool, properties, more), "    "))
    return "\n".join(lines) + "\n"


def servers_stub(servers: Mapping[str, Mapping[str, Tool] | None]) -> str:
    """Return the stub of a module of servers, each with its tools by name, or None where they are unknown."""
    class_names = {*servers, *_TYPING}
    lines = ["import builtins as _builtins", f"from typing import {', '.join(_TYPING)}", ""]
    for server, tools in servers.items():
        if not _is_name(server) or server in _TYPING:
            lines += [f"# No module can import the server {server!r}.", ""]
        elif tools is None:
            lines += [f"{server}: Any  # its tools are not known", ""]
        else:
            # A server or a tool of the name of a type hides it.
            aliases = {name: f"_builtins.{name}" for name in _NAMES.values() if name in tools or name in servers}
            lines += [*_server_lines(server, tools, class_names, aliases), ""]
    return "\n".join(lines)


def _server_lines(
    server: str, tools: Mapping[str, Tool], class_names: set[str], aliases: Mapping[str, str]
) -> list[str]:
    owner, classes = _title(server), list[str]()
    methods: list[str] = []
    for name, tool in tools.items():
        if not _is_name(name) or name in _TYPING:
            methods.append(f"# call_tool({tool.id!r}, {{...}})")
            continue
        types = _Types(tool.input_schema, class_names, aliases)
        results = _Types(tool.output_schema or {}, class_names, aliases)
        methods += ["@staticmethod", f"async def {name}({_parameters(tool, owner + _title(name), types)}) -> "]
        result = results.annotation(tool.output_schema, f"{owner}{_title(name)}Result") if tool.output_schema else "Any"
        methods[-1] += f"{result}:"
        methods.append(textwrap.indent(_full_docstring(tool, types), "    "))
        classes += [*types.classes, *results.classes]
    body = textwrap.indent("\n".join(methods) or "pass", "    ")
    class_name = _new_name(f"_{owner}", class_names)
    return [*classes, f"class {class_name}:\n{body}", "", f"{server}: {class_name}"]


def _parameters(tool: Tool, owner: str, types: _Types) -> str:
    """Return the parameters of a tool; those whose names Python has no syntax for are in a TypedDict."""
    schema = types.followed(tool.input_schema)
    required, properties = schema.get("required") or (), schema.get("properties") or {}
    texts = []
    for key in sorted(properties, key=lambda key: key not in required):
        if _is_name(key):
            annotation = types.annotation(properties[key], owner + _title(key))
            texts.append(f"{key}: {annotation}" + ("" if key in required else " = ..."))
    others = {key: inner for key, inner in properties.items() if key and not _is_name(key)}
    more = schema.get("additionalProperties")
    if others:
        typed = types.annotation({"type": "object", "properties": others, "required": list(required)}, f"{owner}Others")
        texts.append(f"**others: Unpack[{typed}]")
    elif more or (more is None and "properties" not in schema):
        texts.append(f"**others: {types.annotation(more, owner + 'Others') if isinstance(more, dict) else 'Any'}")
    return "*, " * (bool(texts) and not texts[0].startswith("**")) + ", ".join(texts)


def _full_docstring(tool: Tool, types: _Types) -> str:
    properties = types.followed(tool.input_schema).get("properties") or {}
    lines = (tool.description or tool.display_name).splitlines()
    described = []
    for key, schema in properties.items():
        inner = types.followed(schema)
        own = schema.get("description") if isinstance(schema, dict) else None
        text = " ".join(str(own or inner.get("description") or "").split())
        default = f"Default: {inner['default']!r}." if "default" in inner else ""
        if text or default:
            described.append(f"    {key}: {' '.join(filter(None, (text, default)))}")
    if described:
        lines += ["", "Args:", *described]
    return _quoted(lines)


def _quoted(lines: list[str]) -> str:
    """Return a docstring."""
    text = escape_invisible("\n".join(lines)).replace("\\", "\\\\").replace('"""', "'''")
    if text.endswith('"'):
        text = f'{text[:-1]}\\"'
    return f'"""{text}"""' if len(lines) == 1 else f'"""{text}\n"""'


def _is_name(text: str) -> bool:
    """Return True for a name that a parameter, a member and an import can have."""
    return text.isidentifier() and not keyword.iskeyword(text) and not text.startswith("_")


def _new_name(name: str, names: set[str]) -> str:
    """Add a name to the names of a module, with as many underscores as make it new, and return it."""
    while name in names:
        name += "_"
    names.add(name)
    return name


def _title(text: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[\W_]+", text))


def _docstring(tool: Tool, properties: Mapping[str, Any], more: list[str]) -> str:
    lines = [_short(tool.description) or tool.display_name]
    for key, inner in properties.items():
        if isinstance(inner, dict) and inner.get("description"):
            lines.append(f"{key}: {_short(str(inner['description']))}")
    lines += [f"{key!r}: pass it in **{{...}}" for key in more]
    return _quoted(lines)


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _MAX_DESCRIPTION else words[: _MAX_DESCRIPTION - 1] + "…"


class _Types:
    """The types of one schema; `classes` are the TypedDicts that they need, each with a name of its own."""

    # With `aliases`, other names of builtins, every type is complete; without, it is short.

    def __init__(
        self, root: Mapping[str, Any], class_names: set[str], aliases: Mapping[str, str] | None = None
    ) -> None:
        self.root, self.class_names = root, class_names
        self.classes: list[str] = []
        self._is_complete, self._aliases = aliases is not None, aliases or {}
        self._depth = self._part_count = 0
        # The annotation behind each `$ref`, so that an object may contain itself.
        self._by_ref: dict[str, str] = {}

    def followed(self, schema: Any) -> dict[str, Any]:
        """Return the schema behind a `$ref` to a place in the same document, with the parts of an `allOf`."""
        for _ in range(8):
            way = schema.get("$ref") if isinstance(schema, dict) else None
            if not isinstance(way, str) or not way.startswith("#"):
                break
            target: Any = self.root
            for part in way[2:].split("/") if len(way) > 2 else ():
                target = target.get(part) if isinstance(target, dict) else None
            schema = target
        if not isinstance(schema, dict):
            return {}
        parts = schema.get("allOf")
        if not isinstance(parts, list) or self._part_count + len(parts) > _MOST_PARTS:
            return schema
        self._part_count += len(parts)
        merged = [*map(self.followed, parts), {key: value for key, value in schema.items() if key != "allOf"}]
        properties = {key: inner for part in merged for key, inner in (part.get("properties") or {}).items()}
        required = [key for part in merged for key in part.get("required") or ()]
        whole = {key: value for part in merged for key, value in part.items()}
        return {**whole, **({"properties": properties, "required": required} if properties else {})}

    @property
    def _deepest(self) -> int:
        return 3 * _DEEPEST if self._is_complete else _DEEPEST

    def annotation(self, schema: Json, class_name: str) -> str:
        """Return the annotation of a schema; `class_name` names the TypedDict of an object."""
        way = schema.get("$ref") if isinstance(schema, dict) else None
        if isinstance(way, str) and way in self._by_ref:
            return self._by_ref[way]
        if self._depth >= self._deepest:
            return "Any"
        inner = self.followed(schema)
        self._depth += 1
        try:
            found = self._annotation(inner, class_name, way if isinstance(way, str) else "")
        finally:
            self._depth -= 1
        if isinstance(way, str):
            self._by_ref[way] = found
        return found

    def _annotation(self, schema: dict[str, Any], class_name: str, way: str = "") -> str:
        if "const" in schema:
            return self._literal([schema["const"]])
        if isinstance(schema.get("enum"), list):
            return self._literal(schema["enum"])
        for word in ("anyOf", "oneOf"):
            if isinstance(schema.get(word), list):
                return _union([self.annotation(item, class_name) for item in schema[word]])
        kind = schema.get("type", "object" if schema.get("properties") else None)
        if isinstance(kind, list):
            return _union([self._annotation({**schema, "type": item}, class_name, way) for item in kind])
        if kind == "array" and (self._is_complete or schema.get("items")):
            return f"{self._name('list')}[{self.annotation(schema.get('items'), class_name)}]"
        if kind == "object" and schema.get("properties"):
            return self._object(schema, class_name, way)
        if kind == "object" and self._is_complete:
            value = self.annotation(schema.get("additionalProperties"), class_name)
            return f"{self._name('dict')}[{self._name('str')}, {value}]"
        return self._name(_NAMES.get(str(kind), "Any"))

    def _literal(self, values: list[Json]) -> str:
        if not values or (self._is_complete and any(type(value) not in _LITERALS for value in values)):
            return "Any"
        if not self._is_complete:
            return f"Literal[{', '.join(map(repr, values[:_MOST_CHOICES]))}]"
        return f"Literal[{', '.join(dict.fromkeys(map(repr, values)))}]"

    def _name(self, name: str) -> str:
        return self._aliases.get(name, name)

    def _object(self, schema: dict[str, Any], class_name: str, way: str) -> str:
        required = schema.get("required") or ()
        class_name = _new_name(class_name, self.class_names)
        if way:
            self._by_ref[way] = class_name
        fields = {}
        for key, inner in schema["properties"].items():
            if not key:
                continue  # no TypedDict has it
            text = self.annotation(inner, class_name + "".join(filter(str.isalnum, key.title())))
            fields[key] = text if key in required else f"NotRequired[{text}]"
        if all(key.isidentifier() and not keyword.iskeyword(key) and not key.startswith("__") for key in fields):
            body = "\n".join(f"    {key}: {text}" for key, text in fields.items())
            self.classes.append(f"class {class_name}(TypedDict):\n{body}\n")
        else:
            pairs = ", ".join(f"{key!r}: {text}" for key, text in fields.items())
            self.classes.append(f"{class_name} = TypedDict({class_name!r}, {{{pairs}}})\n")
        return class_name


def _union(names: list[str]) -> str:
    listed = list(dict.fromkeys(names))
    return "Any" if "Any" in listed or not listed else " | ".join(listed)
