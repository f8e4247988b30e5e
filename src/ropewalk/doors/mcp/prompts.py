"""Flows as prompts: their arguments come from the input schema, their messages from the result of a run.

A flow is a prompt if its document has `mcpPrompt: true` or `[mcp_server] prompts` names it. Arguments of prompts are
texts, so those with another type are read as JSON. The result may be a text, a list of messages, an object with
`messages` and `description`, or any other value, which becomes one message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import orjson

from ...content import about_of, to_mcp
from ...errors import InvalidFlow, InvalidInput
from ...values import Json, did_you_mean, parse_json
from .client_channel import ClientChannel
from .results import ERROR, blocks, explained, is_object, shown_input
from .tool_source import CallContext, ExposedTool

MAX_COMPLETIONS: Final = 100
"""Values in one answer to a completion request, by the protocol."""
_ROLES: Final = ("user", "assistant")


class FlowPrompts:
    """The flows of a project that are prompts."""

    def __init__(self, tools: Callable[[], Mapping[str, ExposedTool]]) -> None:
        self._tools = tools

    @property
    def prompts(self) -> dict[str, ExposedTool]:
        """The prompts by name, each with the name of its tool."""
        return {name: item for name, item in self._tools().items() if item.prompt}

    def described(self) -> list[Any]:
        """Return the prompts as clients list them."""
        import mcp_types as types

        return [
            types.Prompt(
                name=name,
                title=item.title,
                description=item.description,
                arguments=[
                    types.PromptArgument(
                        name=argument,
                        title=_text(schema.get("title")),
                        description=_text(schema.get("description")),
                        required=required,
                    )
                    for argument, schema, required in _arguments(item)
                ],
            )
            for name, item in self.prompts.items()
        ]

    async def get(self, name: str, client: ClientChannel, params: Any) -> Any:
        """Run the flow of a prompt, and return its result as messages."""
        from mcp import MCPError
        from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, CallToolResult

        item = self.prompts[name]
        context = CallContext(client=client, input_responses=params.input_responses, request_state=params.request_state)
        try:
            result = await item.call(_read_arguments(item, params.arguments or {}), context)
        except InvalidInput as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        except (MCPError, InvalidFlow):
            raise
        except Exception as error:  # noqa: BLE001 - the client gets an answer, and none of our texts
            result = explained(item.wanted, error)
        # A result of another type is a question, which the client asks its user.
        if not isinstance(result, CallToolResult):
            return result
        if result.is_error:
            why = " ".join(block.text for block in result.content if block.type == "text")
            raise MCPError(INTERNAL_ERROR, why, (result.meta or {}).get(ERROR))
        value = result.structured_content
        # Structured content must be an object, so a tool wraps any other value.
        if not is_object(item.output_schema) and isinstance(value, dict):
            value = value.get("result")
        return _as_messages(value, item.description)

    def complete(self, name: str, argument: str, value: str) -> list[str]:
        """Return the values that an argument can have and that begin with a text."""
        schemas = {key: schema for key, schema, _ in _arguments(self.prompts[name])}
        return [choice for choice in _choices(schemas.get(argument, {})) if choice.lower().startswith(value.lower())]


def _arguments(item: ExposedTool) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Yield the name, the schema and the necessity of each argument of a prompt."""
    schema: Any = shown_input(item.input_schema)
    for name, inner in (schema.get("properties") or {}).items():
        yield name, inner if isinstance(inner, dict) else {}, name in (schema.get("required") or ())


def _read_arguments(item: ExposedTool, texts: Mapping[str, str]) -> dict[str, Json]:
    """Return the arguments of a prompt with the types of its schema."""
    from mcp import MCPError
    from mcp_types import INVALID_PARAMS

    known = {name: schema for name, schema, _ in _arguments(item)}
    if unknown := [name for name in texts if known and name not in known]:
        near = did_you_mean(unknown[0], known)
        hint = f"; did you mean {near!r}?" if near else f"; known: {', '.join(known)}"
        raise MCPError(INVALID_PARAMS, f"no argument {unknown[0]!r}{hint}")
    if missing := [name for name, _, required in _arguments(item) if required and name not in texts]:
        raise MCPError(INVALID_PARAMS, f"missing argument: {', '.join(missing)}")
    return {name: _typed(text, known.get(name, {})) for name, text in texts.items()}


def _typed(text: str, schema: Mapping[str, Any]) -> Json:
    """Return a text as the JSON value that a schema wants; the text itself where it may be one."""
    types = schema.get("type")
    if types is None and "enum" in schema:
        return next((choice for choice in schema["enum"] if _shown(choice) == text), text)
    if types is None or "string" in ([types] if isinstance(types, str) else types):
        return text
    try:
        return parse_json(text)
    except orjson.JSONDecodeError:
        return text  # the check of the input says what is wrong


def _choices(schema: Mapping[str, Any]) -> list[str]:
    """Return the texts of the values that a schema lists."""
    if isinstance(schema.get("enum"), list):
        return [_shown(choice) for choice in schema["enum"]]
    if schema.get("type") == "boolean":
        return ["true", "false"]
    branches = [item for key in ("anyOf", "oneOf") for item in schema.get(key) or () if isinstance(item, dict)]
    constants = [_shown(schema["const"])] if "const" in schema else []
    return list(dict.fromkeys([*constants, *(choice for item in branches for choice in _choices(item))]))


def _shown(value: Json) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None


def _as_messages(value: Json, description: str) -> Any:
    """Return the value of a flow as the messages of a prompt."""
    from mcp_types import GetPromptResult

    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        description = _text(value.get("description")) or description
        value = value["messages"]
    listed: list[Any] = value if isinstance(value, list) and value else []
    if listed and all(isinstance(item, dict) and item.get("role") in _ROLES and "content" in item for item in listed):
        messages = [
            {"role": item["role"], "content": content} for item in listed for content in _contents(item["content"])
        ]
    else:
        messages = [{"role": "user", "content": block} for block in blocks(value)]
    return GetPromptResult.model_validate({"description": description, "messages": messages})


def _contents(content: Json) -> list[Any]:
    """Return the content blocks of a message: of its text, its parts, or blocks of MCP as they are."""
    if isinstance(content, dict) and about_of(content) is None and isinstance(content.get("type"), str):
        return [content]
    if isinstance(content, list) and all(isinstance(item, dict) and "type" in item for item in content):
        return list(content)
    if (about := about_of(content)) is not None:
        return [to_mcp(about)]
    return blocks(content)
