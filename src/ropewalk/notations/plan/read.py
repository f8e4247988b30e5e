"""Plans as documents: `kind: plan` with the program in `code`.

A plan names tools as Python does (`search`, `git.git_log`). `tools` says which tool each name
means, and its parameters. The app adds `tools` when it loads a plan, so a recorded run has everything that its graph
was made of.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ...errors import InvalidFlow
from ...expr.ast import Obj
from ...ir import Flow
from ...values import Json
from .. import fields as f
from ..fields import Checker, read_document
from ..registry import Compiled, failures
from ..undo import check_undo_policy
from .compile import Rejected, compile_program, parse
from .program import MODES, PlanTool

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
    "tools": f.mapping,
    "function": f.truth,
    "parallel": f.one_of(MODES),
    "timeout": f.number,
    "undo": check_undo_policy,
}


def fits(document: Mapping[str, Json]) -> bool:
    """Return True for a document whose `code` is a text and that has no nodes or steps."""
    return isinstance(document.get("code"), str) and not {"nodes", "steps", "graph"} & document.keys()


def compile_document(config: Mapping[str, Json]) -> Compiled:
    """Read and compile a plan.

    Raises:
        InvalidFlow: With every problem; those of the program have their line and column.
    """
    given, report = read_document(config, FIELDS, "plan")
    code = given.get("code")
    if not isinstance(code, str):
        f.add_problem(report, "code", "must be the text of a program")
    if report:
        raise InvalidFlow(report)
    name = str(given.get("name", given.get("id", "plan")))
    try:
        schema = input_schema(str(code), given)
        raw_tools: Any = given.get("tools") or {}
        tools = {tool: PlanTool.read(entry) for tool, entry in raw_tools.items()}
        names = [*(schema or {}).get("properties", {})]
        inside, parallel = given.get("function") is True, str(given.get("parallel", "none"))
        flow = compile_program(name, str(code), tools, names, inside=inside, parallel=parallel)
    except Rejected as error:
        raise InvalidFlow(error.problems) from None
    seconds: Any = given.get("timeout")
    flow = replace(
        flow,
        input_schema=schema,
        output_schema=None if prints(flow) else given.get("output"),
        timeout=float(seconds) / 1000 if seconds is not None else None,
        undo=given.get("undo"),
    )
    return Compiled(
        kind="plan",
        id=str(given.get("id", name)),
        name=name,
        document={"name": name, **given},
        flow=flow,
        warnings=(),
        output_schema=given.get("output"),
        render=_render,
    )


def prints(flow: Flow) -> bool:
    """Return True if the value of a compiled plan contains the printed text in addition to the result."""
    return isinstance(getattr(flow.body.nodes[-1].op, "value", None), Obj)


def input_schema(code: str, document: Mapping[str, Json]) -> dict[str, Json] | None:
    """Return the JSON Schema of the input: the declared one, and the names that the program declares.

    A program declares an input by an annotation without a value: `department: str`. Names in `inputs` may have any
    value.

    Raises:
        Rejected: The program is not valid Python.
    """
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


def _render(ending: Any) -> dict[str, Json]:
    """Return an ending in the words of plans: the result, and what the program printed."""
    value, printed = ending.value, None
    if isinstance(value, dict) and value.keys() == {"result", "printed"}:
        value, printed = value["result"], "".join(value["printed"])
    result: dict[str, Json] = {
        "success": ending.status == "completed",
        "executionId": ending.run_id,
        "status": ending.status,
        "result": value,
        "errors": failures(ending),
        "duration": round(ending.duration * 1000, 3),
    }
    if printed is not None:
        result["printed"] = printed
    return result
