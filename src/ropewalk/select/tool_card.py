"""The card of a tool: its texts, field by field, and the data that results contain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..errors import InvalidTool
from ..fast_dataclass import dataclass
from ..tools.vendor_tools import read_tool
from ..values import Json

if TYPE_CHECKING:
    from ..tools.tool import Tool

FIELDS: Final = ("name", "description", "parameters", "parameter descriptions", "category")
MAX_TEXT: Final = 20_000  # characters of one field that are read
MAX_PARAMETERS: Final = 500
HINTS: Final = ("readOnlyHint", "destructiveHint")


@dataclass(frozen=True, slots=True)
class Card:
    """A tool as the selector sees it."""

    # `key` is its unique id (`namespace:name`). `hints` are the annotations of HINTS that are true. `phrases` say how
    # people ask for it.

    key: str
    name: str
    description: str
    category: str | None
    namespace: str | None
    input_schema: Json
    texts: tuple[str, str, str, str, str]
    hints: frozenset[str] = frozenset()
    phrases: tuple[str, ...] = ()


def card_of(tool: Tool | Mapping[str, Any]) -> Card:
    """Return the card of a Tool, or of a definition `{name, description, category?, inputSchema?, namespace?,
    tags?}`."""
    if not isinstance(tool, Mapping):
        from ..tools.tool import Tool

        if not isinstance(tool, Tool):
            raise InvalidTool(
                f"a tool to select from must be a Tool or a definition {{name, description, ...}}, not {tool!r}"
            )
        category, schema = category_of(tool), tool.input_schema
        return _card(
            tool.id, tool.name, tool.description, category, tool.namespace, schema, tool.tags, tool.annotations
        )
    # A definition comes from a user, so every field is checked.
    definition = read_tool(tool, "a tool to select from")
    name = definition["name"]
    texts: dict[str, Any] = {}
    for key in ("description", "category", "namespace"):
        texts[key] = value = definition.get(key)
        if value is not None and not isinstance(value, str):
            raise InvalidTool(f"tool {name!r}: {key} must be a string, not {type(value).__name__}")
    tags = definition.get("tags") or ()
    if isinstance(tags, str) or not isinstance(tags, Sequence) or not all(isinstance(tag, str) for tag in tags):
        raise InvalidTool(f"tool {name!r}: tags must be a list of strings")
    namespace = texts["namespace"]
    key = f"{namespace}:{name}" if namespace else name
    about, annotations = texts["description"] or "", definition.get("annotations")
    return _card(key, name, about, texts["category"], namespace, definition.get("inputSchema"), tags, annotations)


def category_of(tool: Tool) -> str | None:
    """Return the category in a tool's annotations, None without one."""
    category = (tool.annotations or {}).get("category")
    return category if isinstance(category, str) else None


def _card(
    key: str,
    name: str,
    description: str,
    category: str | None,
    space: str | None,
    schema: Any,
    tags: Sequence[str],
    annotations: Any,
) -> Card:
    names: list[str] = []
    texts: list[str] = []
    _collect_parameters(schema, names, texts, 0)
    about = " ".join((category or "", (space or "").replace("-", " "), *tags))
    parts = (name, description, " ".join(names), " . ".join(texts), about)
    cut = tuple(part[:MAX_TEXT] for part in parts)
    hints: frozenset[str] = frozenset()
    if annotations and isinstance(annotations, Mapping):
        hints = frozenset([hint for hint in HINTS if annotations.get(hint) is True])
    return Card(key, name, description, category, space, schema, cut, hints)  # type: ignore[arg-type]


def _collect_parameters(schema: Any, names: list[str], texts: list[str], depth: int) -> None:
    """Collect the names and descriptions of parameters, also inside objects and lists, three levels down."""
    if not (type(schema) is dict or isinstance(schema, Mapping)) or depth > 3:  # test the fast case first
        return
    properties = schema.get("properties")
    if type(properties) is dict or isinstance(properties, Mapping):
        for name, inner in properties.items():
            if len(names) >= MAX_PARAMETERS:
                return
            names.append(str(name))
            if type(inner) is dict or isinstance(inner, Mapping):
                description = inner.get("description")
                if isinstance(description, str):
                    texts.append(description[:1000])
                options = inner.get("enum")
                if options is not None and isinstance(options, Sequence) and not isinstance(options, str):
                    texts.append(" ".join(option for option in options[:20] if isinstance(option, str))[:500])
                _collect_parameters(inner, names, texts, depth + 1)
    if "items" in schema:
        _collect_parameters(schema["items"], names, texts, depth + 1)
