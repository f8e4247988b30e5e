"""Lists of tools as other makers write them, in one form: `{name, description, inputSchema, outputSchema}`.

It reads the lists of MCP, OpenAI (chat and responses), Anthropic, Gemini, Bedrock and LangChain. The forms differ in
the key of the schema. An entry that may have its schema under an unknown key is refused: it would take any arguments.
To add a form, add the key of its schema to `_SCHEMAS`, or the way to its entries to `read_tool_list`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..errors import InvalidTool
from ..values import Json, did_you_mean

_SCHEMAS: Final = ("inputSchema", "input_schema", "parametersJsonSchema", "parameters", "args_schema", "args")
_RESULTS: Final = ("outputSchema", "output_schema", "responseJsonSchema", "response")
LISTS: Final = frozenset(("tools", "functionDeclarations", "function_declarations", "functions"))
"""Keys of an object that holds a list of tools."""
_WRAPPERS: Final = ("function", "toolSpec")  # of OpenAI chat and of Bedrock
_KEPT: Final = (
    "name",
    "description",
    "title",
    "category",
    "namespace",
    "tags",
    "annotations",
    "version",
    "icons",
    "_meta",
)
_IGNORED: Final = frozenset(
    ("type", "strict", "cache_control", "cacheControl", "return_direct", "metadata", "behavior", "defer_loading",
     "allowed_callers", "input_examples", "eager_input_streaming", "toolConfig", "toolChoice", "tool_choice",
     "execution")
)  # fmt: skip
"""Keys that say how a model gets the tool, and nothing about its arguments."""
_SCHEMA_MAPS: Final = ("properties", "$defs", "definitions", "patternProperties")
_SCHEMA_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_NUMBERS: Final = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_TYPES: Final = frozenset(("STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"))


def read_tool_list(tools: Any) -> list[dict[str, Any]]:
    """Return the entries of a list of tools, each as `{name, description, inputSchema, ...}`."""
    if isinstance(tools, Mapping):
        lists = [key for key in sorted(LISTS) if key in tools]
        if len(lists) != 1:
            raise InvalidTool(
                f"a list of tools must be a list, or an object with one of: {', '.join(sorted(LISTS, reverse=True))}"
            )
        tools = tools[lists[0]]
    if not isinstance(tools, (list, tuple)):
        raise InvalidTool(f"a list of tools must be a list, not {type(tools).__name__}")
    return [entry for position, tool in enumerate(tools, 1) for entry in _entries(tool, f"tool {position}")]


def _entries(tool: Any, label: str) -> Iterator[dict[str, Any]]:
    if not isinstance(tool, Mapping):
        raise InvalidTool(f"{label} must be an object, not {type(tool).__name__}")
    inner = [key for key in sorted(LISTS) if isinstance(tool.get(key), (list, tuple))]
    if inner:
        yield from read_tool_list({inner[0]: tool[inner[0]]})
    if others := [key for key in tool if key not in inner] if inner else []:
        raise InvalidTool(f"{label} has {others[0]!r} next to {inner[0]!r}: only its maker runs it; remove it")
    if not inner:
        yield read_tool(tool, label)


def read_tool(tool: Mapping[str, Any], label: str = "a tool") -> dict[str, Any]:
    """Return one entry of a list in the common form."""
    for key in _WRAPPERS:
        if isinstance(tool.get(key), Mapping):
            return read_tool(tool[key], label)
    name = tool.get("name")
    if not isinstance(name, str) or not name.strip():
        keys = ", ".join(map(str, tool)) or "none"
        raise InvalidTool(f"{label} needs a name, a string that is not empty; its keys are: {keys:.200}")
    label = f"tool {name!r}"
    schemas = [key for key in _SCHEMAS if tool.get(key) is not None]
    known = {*_SCHEMAS, *_RESULTS, *_KEPT, *_IGNORED}
    unknown = [key for key in tool if key not in known and not str(key).startswith(("x-", "_"))]
    kind = tool.get("type")
    if not schemas and isinstance(kind, str) and kind not in ("function", "custom", "tool"):
        raise InvalidTool(f"{label} is of the type {kind!r}, which only its maker runs; remove it from the list")
    if not schemas and unknown:
        near = did_you_mean(unknown[0], _SCHEMAS)
        hint = f"did you mean {near!r}?" if near else f"its schema must be in one of: {', '.join(_SCHEMAS)}"
        raise InvalidTool(f"{label}: unknown key {unknown[0]!r}, and no schema of its arguments; {hint}")
    if len(schemas) > 1 and any(tool[key] != tool[schemas[0]] for key in schemas[1:]) and "args" not in schemas:
        raise InvalidTool(f"{label} has two different schemas, {schemas[0]!r} and {schemas[1]!r}; remove one")
    entry = {key: tool[key] for key in _KEPT if key in tool}
    if schemas:
        entry["inputSchema"] = _schema(tool[schemas[0]], schemas[0], label)
    result: str | None = next((key for key in _RESULTS if tool.get(key) is not None), None)
    if result is not None:
        entry["outputSchema"] = _schema(tool[result], result, label)
    return entry


def _schema(schema: Any, key: str, label: str) -> Any:
    """Return the JSON Schema in a key of an entry."""
    if isinstance(schema, Mapping) and key in ("inputSchema", "outputSchema") and list(schema) == ["json"]:
        schema = schema["json"]  # Bedrock
    if not isinstance(schema, Mapping):
        raise InvalidTool(f"{label}: {key} must be an object, not {type(schema).__name__}")
    if key == "args":  # LangChain's are the properties only
        return {"type": "object", "properties": dict(schema)}
    if key == "parameters" and schema and not schema.keys() & {"type", "properties", "$ref", "anyOf", "oneOf", "allOf"}:
        raise InvalidTool(f"{label}: {key} must be a JSON Schema, such as {{'type': 'object', 'properties': ...}}")
    if key in ("parameters", "response"):
        return {"type": "object", **_lower_types(schema)} if key == "parameters" else _lower_types(schema)
    return dict(schema)


def _lower_types(schema: Any) -> Any:
    """Return a schema whose types are written as JSON Schema writes them; Gemini writes `STRING` and `nullable`."""
    if not isinstance(schema, Mapping):
        return schema
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _SCHEMA_MAPS and isinstance(value, Mapping):
            result[key] = {name: _lower_types(inner) for name, inner in value.items()}
        elif key in _SCHEMA_LISTS and isinstance(value, list):
            result[key] = [_lower_types(inner) for inner in value]
        elif key in ("items", "additionalProperties", "not"):
            result[key] = _lower_types(value)
        elif key in _NUMBERS and isinstance(value, str) and value.isascii() and value.isdecimal():
            result[key] = int(value)  # its 64-bit integers are texts
        else:
            result[key] = value
    kind: Json = result.get("type")
    if isinstance(kind, str) and kind in _TYPES:
        result["type"] = kind.lower()
        if result.pop("nullable", False) is True:
            result["type"] = [kind.lower(), "null"]
            if isinstance(result.get("enum"), list):
                result["enum"] = [*result["enum"], None]
        result.pop("propertyOrdering", None)
        if result.get("format") == "enum":
            del result["format"]
    elif kind == "TYPE_UNSPECIFIED":
        del result["type"]
    return result
