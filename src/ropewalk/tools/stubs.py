"""Tools as Python stubs: a signature, a docstring, and a TypedDict for each object.

A model reads a stub with fewer tokens than a JSON Schema, and writes calls that look like it.
"""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Mapping
from typing import Any, Final

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


def _docstring(tool: Tool, properties: Mapping[str, Any], more: list[str]) -> str:
    lines = [_short(tool.description) or tool.display_name]
    for key, inner in properties.items():
        if isinstance(inner, dict) and inner.get("description"):
            lines.append(f"{key}: {_short(str(inner['description']))}")
    lines += [f"{key!r}: pass it in **{{...}}" for key in more]
    text = "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")
    return f'"""{text}"""' if len(lines) == 1 else f'"""{text}\n"""'


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _MAX_DESCRIPTION else words[: _MAX_DESCRIPTION - 1] + "…"


class _Types:
    """The types of one schema; `classes` are the TypedDicts that they need, each with a name of its own."""

    def __init__(self, root: Mapping[str, Any], class_names: set[str]) -> None:
        self.root, self.class_names = root, class_names
        self.classes: list[str] = []
        self._depth = 0

    def followed(self, schema: Any) -> dict[str, Any]:
        """Return the schema behind a `$ref` to a place in the same document."""
        for _ in range(8):
            way = schema.get("$ref") if isinstance(schema, dict) else None
            if not isinstance(way, str) or not way.startswith("#/"):
                break
            target: Any = self.root
            for part in way[2:].split("/"):
                target = target.get(part) if isinstance(target, dict) else None
            schema = target
        return schema if isinstance(schema, dict) else {}

    def annotation(self, schema: Json, class_name: str) -> str:
        """Return the annotation of a schema; `class_name` names the TypedDict of an object."""
        inner = self.followed(schema)
        if self._depth >= _DEEPEST:
            return "Any"
        self._depth += 1
        try:
            return self._annotation(inner, class_name)
        finally:
            self._depth -= 1

    def _annotation(self, schema: dict[str, Any], class_name: str) -> str:
        if "const" in schema:
            return f"Literal[{schema['const']!r}]"
        if isinstance(schema.get("enum"), list):
            return f"Literal[{', '.join(map(repr, schema['enum'][:_MOST_CHOICES]))}]"
        for word in ("anyOf", "oneOf"):
            if isinstance(schema.get(word), list):
                return _union([self.annotation(item, class_name) for item in schema[word]])
        kind = schema.get("type")
        if isinstance(kind, list):
            return _union([self._annotation({**schema, "type": item}, class_name) for item in kind])
        if kind == "array":
            return f"list[{self.annotation(schema['items'], class_name)}]" if schema.get("items") else "list"
        if kind == "object" and schema.get("properties"):
            return self._object(schema, class_name)
        return _NAMES.get(str(kind), "Any")

    def _object(self, schema: dict[str, Any], class_name: str) -> str:
        required = schema.get("required") or ()
        fields = {}
        for key, inner in schema["properties"].items():
            text = self.annotation(inner, class_name + "".join(filter(str.isalnum, key.title())))
            fields[key] = text if key in required else f"NotRequired[{text}]"
        while class_name in self.class_names:
            class_name += "_"
        self.class_names.add(class_name)
        if all(key.isidentifier() and not keyword.iskeyword(key) for key in fields):
            body = "\n".join(f"    {key}: {text}" for key, text in fields.items())
            self.classes.append(f"class {class_name}(TypedDict):\n{body}\n")
        else:
            pairs = ", ".join(f"{key!r}: {text}" for key, text in fields.items())
            self.classes.append(f"{class_name} = TypedDict({class_name!r}, {{{pairs}}})\n")
        return class_name


def _union(names: list[str]) -> str:
    listed = list(dict.fromkeys(names))
    return "Any" if "Any" in listed else " | ".join(listed)
