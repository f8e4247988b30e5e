"""Readers of sets without executable tools: NESTFUL and Seal-Tools. Their tools answer by their schema.

NESTFUL: https://github.com/IBM/NESTFUL. Seal-Tools: https://github.com/fairyshine/Seal-Tools. `folder` is a checkout.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from plans_gold import Gold, Reference, Schema, Step, Template, copied

_NESTFUL = ("executable/executable", "non-executable/non-executable-glaive", "non-executable/non-executable-sgd")
_TYPES = {
    "str": "string",
    "string": "string",
    "enum": "string",
    "date (yyyy-mm-dd)": "string",
    "int": "integer",
    "integer": "integer",
    "float": "number",
    "double": "number",
    "number": "number",
    "bool": "boolean",
    "boolean": "boolean",
    "list": "array",
    "tuple": "array",
    "array": "array",
    "dict": "object",
    "object": "object",
}


class Answering:
    """A world whose tools answer by their schema: the same arguments always give the same value."""

    def __init__(self, tools: Mapping[str, Schema]) -> None:
        self.tools = tools
        self.made: list[Any] = []

    def call(self, tool: str, args: dict[str, Any]) -> Any:
        """Return a value that fits what the tool returns."""
        self.made.append([tool, copied(args)])
        seed = hashlib.sha256(json.dumps([tool, args], sort_keys=True).encode()).hexdigest()
        return _answer(self.tools[tool].returns or {}, seed, tool)

    def state(self) -> Any:
        """Return every call that was made."""
        return self.made


def _answer(schema: Mapping[str, Any], seed: str, name: str) -> Any:
    own = int(hashlib.sha256((seed + name).encode()).hexdigest()[:8], 16)
    if schema.get("enum"):
        return schema["enum"][own % len(schema["enum"])]
    kind = schema.get("type")
    if kind == "object":
        return {key: _answer(inner, seed, f"{name}.{key}") for key, inner in (schema.get("properties") or {}).items()}
    if kind == "array":
        return [_answer(schema.get("items") or {}, seed, f"{name}[{index}]") for index in range(3)]
    if kind == "integer":
        return own % 1000
    if kind == "number":
        return own % 100_000 / 100
    if kind == "boolean":
        return own % 2 == 0
    return f"{name} {own % 10_000}"


def schema_of(entry: Any) -> dict[str, Any]:
    """Return the JSON Schema of a set's description of a value."""
    if isinstance(entry, str):
        return {"type": _TYPES[entry.lower()]} if entry.lower() in _TYPES else {}
    schema: dict[str, Any] = {}
    kind = _TYPES.get(str(entry.get("type", "")).lower())
    if kind is not None:
        schema["type"] = kind
    if entry.get("description"):
        schema["description"] = str(entry["description"])
    choices = entry.get("enum") or entry.get("allowed_values") or entry.get("possible_values")
    if isinstance(choices, list) and choices and kind not in ("array", "object"):
        schema["enum"] = choices
    if isinstance(entry.get("items"), dict):
        schema["items"] = schema_of(entry["items"])
    if isinstance(entry.get("properties"), dict):
        schema["properties"] = {key: schema_of(inner) for key, inner in entry["properties"].items()}
    return schema


def _object(entries: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": {key: schema_of(entries[key]) for key in entries}}
    if required:
        schema["required"] = required
    return schema


# --- NESTFUL ---------------------------------------------------------------------------------------


def nestful(folder: Path) -> Iterator[Gold]:
    """Read the sequences of NESTFUL."""
    for part in _NESTFUL:
        tools = {entry["name"]: _nestful_tool(entry) for entry in _read(folder / "data" / f"{part}-spec.json")}
        for number, entry in enumerate(_read(folder / "data" / f"{part}-data.json")):
            *calls, last = entry["output"]
            steps = [
                Step(call.get("label", f"step{at}"), call["name"], _with_references(call["arguments"]))
                for at, call in enumerate(calls, 1)
            ]
            yield Gold(
                id=f"nestful/{part.rpartition('-')[2].rpartition('/')[2]} {number}",
                tools=tools,
                steps=steps,
                result=_with_references(last["arguments"]),
                world=lambda tools=tools: Answering(tools),  # type: ignore[misc]
                key=part,
                flaw=None if last["name"] == "var_result" else "the last call gives no result",
            )


def _nestful_tool(entry: Mapping[str, Any]) -> Schema:
    parameters: dict[str, Any] = {}
    for kind in ("path_parameters", "query_parameters", "parameters", "arguments"):
        parameters |= entry.get(kind) or {}
    required = [key for key, inner in parameters.items() if isinstance(inner, dict) and inner.get("required") is True]
    returns = entry.get("output_parameters") or {}
    return Schema(entry["description"], _object(parameters, required), _object(returns, list(returns)))


def _with_references(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_references(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_references(item) for item in value]
    if not isinstance(value, str) or "$" not in value:
        return value
    parts = re.split(r"\$(var\d+[^$]*)\$", value)
    if len(parts) == 1:
        return value
    made: list[str | Reference] = [
        _reference(part) if at % 2 else part for at, part in enumerate(parts) if at % 2 or part
    ]
    return made[0] if len(made) == 1 else Template(tuple(made))


def _reference(text: str) -> Reference:
    label, _, rest = re.sub(r"\[(\d+)\]", r".\1", text).partition(".")
    return Reference(label, tuple(int(p) if p.isdigit() else p for p in rest.split(".")) if rest else ())


# --- Seal-Tools ------------------------------------------------------------------------------------


def seal(folder: Path) -> Iterator[Gold]:
    """Read the sequences of Seal-Tools; the part `train` is left out."""
    folder = folder if (folder / "tool.jsonl").is_file() else folder / "Seal-Tools_Dataset"
    listed = [json.loads(line) for line in (folder / "tool.jsonl").read_text().splitlines()]
    tools = {_seal_name(entry["api_name"]): _seal_tool(entry) for entry in listed}
    for part in ("dev", "test_in_domain", "test_out_domain"):
        entries = [json.loads(line) for line in (folder / f"{part}.jsonl").read_text().splitlines()]
        for at, entry in enumerate(entries):
            made: dict[str, Reference] = {}
            steps = []
            for number, call in enumerate(entry["calling"], 1):
                name = _seal_name(call["api"])
                args = {key: _seal_value(value, made) for key, value in call["parameters"].items()}
                steps.append(Step(f"r{number}", name, args))
                members = ((tools[name].returns or {}).get("properties") or {}) if name in tools else {}
                made |= {
                    name: Reference(f"r{number}", (member,))
                    for name, member in zip(call["responses"], members, strict=False)
                }
            group = entries[at - at % 50 : at - at % 50 + 50]  # one app serves fifty sequences
            names = {_seal_name(call["api"]) for other in group for call in other["calling"]}
            used = {name: tools[name] for name in sorted(names) if name in tools}
            yield Gold(
                id=f"seal/{entry['id']}",
                tools=used,
                steps=steps,
                result=[Reference(step.label) for step in steps],
                world=lambda used=used: Answering(used),  # type: ignore[misc]
                key=f"seal {part} {at // 50}",
            )


def _seal_tool(entry: Mapping[str, Any]) -> Schema:
    returns = entry.get("responses") or {}
    required = [key for key in entry.get("required") or () if key in entry["parameters"]]
    return Schema(entry["api_description"], _object(entry["parameters"], required), _object(returns, list(returns)))


def _seal_name(text: str) -> str:
    return re.sub(r"[^\w.-]", "_", text)  # one name has spaces


def _seal_value(value: Any, made: Mapping[str, Reference]) -> Any:
    if isinstance(value, str) and re.fullmatch(r"API_call_\d+", value):
        return made.get(value, Reference(value))
    if isinstance(value, list):
        return [_seal_value(item, made) for item in value]
    if isinstance(value, dict):
        return {key: _seal_value(item, made) for key, item in value.items()}
    return value


def _read(path: Path) -> Any:
    return json.loads(path.read_text())
