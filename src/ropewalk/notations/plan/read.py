"""The fields of plans as documents, and the inputs that a program declares.

A plan names tools as Python does (`search`, `git.git_log`). `tools` says which tool each name
means, and its parameters. The app adds `tools` when it loads a plan, so a recorded run has everything that its graph
was made of.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from ...errors import Problem
from ...values import Json
from .. import fields as f
from ..budget import check_budget
from ..fields import Checker
from ..undo import check_undo_policy
from .source import parse

PARALLEL: Final = ("none", "reads", "all")
_MODE: Final = f.one_of(PARALLEL[:2])


def _check_mode(value: Json, path: str, report: f.Report) -> Json:
    """Return which calls overlap; documents of earlier versions say `all`."""
    return _MODE("reads" if value == "all" else value, path, report)


def _check_tools(value: Json, path: str, report: f.Report) -> Json:
    """Accept an object for each tool."""
    entries: Any = f.mapping(value, path, report)
    return {name: f.mapping(entry, f.join(path, name), report) for name, entry in entries.items()}


FIELDS: Final[dict[str, Checker]] = {
    "id": f.name,
    "kind": f.text,
    "name": f.name,
    "description": f.text,
    "mcpPrompt": f.truth,
    "code": f.text,
    "input": f.mapping,
    "inputs": f.names,
    "output": f.mapping,
    "tools": _check_tools,
    "transforms": f.mapping,
    "function": f.truth,
    "parallel": _check_mode,
    "origin": f.one_of(("model",)),
    "values": f.mapping,
    "timeout": f.milliseconds,
    "undo": check_undo_policy,
    "budget": check_budget,
}


_NAMING: Final = ("code", "function", "input", "inputs", "tools", "transforms", "values")


def is_readable(report: Collection[Problem]) -> bool:
    """Return True if the fields with problems do not change the meaning of the program, so that it can be read."""
    paths = {re.split(r"[.:\[]", problem.path)[0] for problem in report} | {problem.suggestion for problem in report}
    return paths.isdisjoint(_NAMING)


def input_schema(code: str, document: Mapping[str, Json]) -> dict[str, Json] | None:
    """Return the JSON Schema of the input: the declared one, and the names that the program declares."""

    # A program declares an input by an annotation without a value: `department: str`. Names in `inputs` may have any
    # value.
    declared = document.get("input")
    schema: dict[str, Any] = dict(declared) if isinstance(declared, Mapping) else {}
    properties = dict(schema.get("properties") or {})
    required = list(schema.get("required") or ())
    for node in parse(code).body:
        if isinstance(node, ast.AnnAssign) and node.value is None and isinstance(node.target, ast.Name):
            name = node.target.id
            properties.setdefault(name, annotated_schema(node.annotation))
            if name not in required and "default" not in properties[name]:
                required.append(name)
    listed = document.get("inputs")
    for name in [listed] if isinstance(listed, str) else listed or ():
        properties.setdefault(str(name), {})
    if not properties:
        return schema or None
    return {"type": "object", **schema, "properties": properties, **({"required": required} if required else {})}


_TYPES: Final = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
    "List": "array",
    "Dict": "object",
    "None": "null",
}


def annotated_schema(node: ast.expr) -> dict[str, Json]:
    """Return the JSON Schema of a type annotation; `{}` for what JSON has no word for."""
    if isinstance(node, ast.Constant):
        if node.value is None:
            return {"type": "null"}
        if isinstance(node.value, str):  # a quoted annotation
            try:
                return annotated_schema(ast.parse(node.value, mode="eval").body)
            except SyntaxError:
                return {}
    if isinstance(node, ast.Name):
        word = _TYPES.get(node.id)
        return {"type": word} if word is not None else {}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return {"anyOf": [annotated_schema(node.left), annotated_schema(node.right)]}
    if isinstance(node, ast.Subscript) and isinstance(node.value, (ast.Name, ast.Attribute)):
        return _generic(node.value.id if isinstance(node.value, ast.Name) else node.value.attr, node.slice)
    return {}


def _generic(name: str, inner: ast.expr) -> dict[str, Json]:
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    if name in ("list", "List"):
        return {"type": "array", "items": annotated_schema(parts[0])}
    if name in ("dict", "Dict"):
        return {"type": "object", "additionalProperties": annotated_schema(parts[-1])}
    if name == "Optional":
        return {"anyOf": [annotated_schema(parts[0]), {"type": "null"}]}
    if name == "Union":
        return {"anyOf": [annotated_schema(part) for part in parts]}
    if name == "Literal":
        return {"enum": [part.value for part in parts if isinstance(part, ast.Constant)]}
    return {}
