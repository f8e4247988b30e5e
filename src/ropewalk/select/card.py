"""What a selector knows of a tool: its texts, field by field, and what is given back of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..errors import InvalidTool
from ..frozen import dataclass
from ..values import Json

if TYPE_CHECKING:
    from ..tools.tool import Tool

FIELDS: Final = ("name", "description", "parameters", "parameter descriptions", "category")
LONGEST_TEXT: Final = 20_000  # characters of one field that are read; more says nothing new
MOST_PARAMETERS: Final = 500


@dataclass(frozen=True, slots=True)
class Card:
    """A tool as the selector sees it. `key` is its id (`namespace:name`), which no other tool has."""

    key: str
    name: str
    description: str
    category: str | None
    namespace: str | None
    input_schema: Json
    texts: tuple[str, str, str, str, str]


def card_of(tool: Tool | Mapping[str, Any]) -> Card:
    """The card of a Tool, or of a definition `{name, description, category?, inputSchema?, namespace?, tags?}`."""
    if not isinstance(tool, Mapping):
        from ..tools.tool import Tool

        if not isinstance(tool, Tool):
            raise InvalidTool(
                f"a tool to select from is a Tool or a definition {{name, description, ...}}, not {tool!r}"
            )
        category, schema = category_of(tool), tool.input_schema
        return _card(tool.id, tool.name, tool.description, category, tool.namespace, schema, tool.tags)
    name = tool.get("name")
    if not isinstance(name, str) or not name.strip():
        raise InvalidTool(f"a tool to select from needs a name, a string that is not empty; this one has {name!r}")
    given: dict[str, Any] = {}
    for key in ("description", "category", "namespace"):
        given[key] = value = tool.get(key)
        if value is not None and not isinstance(value, str):
            raise InvalidTool(f"tool {name!r}: {key} must be a string, not {type(value).__name__}")
    schema = tool.get("inputSchema", tool.get("input_schema", tool.get("parameters")))
    if schema is not None and not isinstance(schema, Mapping):
        raise InvalidTool(f"tool {name!r}: inputSchema must be an object, not {type(schema).__name__}")
    tags = tool.get("tags") or ()
    if isinstance(tags, str) or not isinstance(tags, Sequence) or not all(isinstance(tag, str) for tag in tags):
        raise InvalidTool(f"tool {name!r}: tags must be a list of strings")
    space = given["namespace"]
    key = f"{space}:{name}" if space else name
    return _card(key, name, given["description"] or "", given["category"], space, schema, tags)


def category_of(tool: Tool) -> str | None:
    """What a tool says of itself."""
    found = (tool.annotations or {}).get("category")
    return found if isinstance(found, str) else None


def _card(
    key: str, name: str, description: str, category: str | None, space: str | None, schema: Any, tags: Sequence[str]
) -> Card:
    names: list[str] = []
    texts: list[str] = []
    _parameters(schema, names, texts, 0)
    about = " ".join((category or "", (space or "").replace("-", " "), *tags))
    parts = (name, description, " ".join(names), " . ".join(texts), about)
    cut = tuple(part[:LONGEST_TEXT] for part in parts)
    return Card(key, name, description, category, space, schema, cut)  # type: ignore[arg-type]


def _parameters(schema: Any, names: list[str], texts: list[str], depth: int) -> None:
    """Names and descriptions of parameters, those inside objects and lists too, three levels down."""
    if not (type(schema) is dict or isinstance(schema, Mapping)) or depth > 3:  # the first is what is quick
        return
    properties = schema.get("properties")
    if type(properties) is dict or isinstance(properties, Mapping):
        for name, inner in properties.items():
            if len(names) >= MOST_PARAMETERS:
                return
            names.append(str(name))
            if type(inner) is dict or isinstance(inner, Mapping):
                said = inner.get("description")
                if isinstance(said, str):
                    texts.append(said[:1000])
                options = inner.get("enum")
                if options is not None and isinstance(options, Sequence) and not isinstance(options, str):
                    texts.append(" ".join(option for option in options[:20] if isinstance(option, str))[:500])
                _parameters(inner, names, texts, depth + 1)
    if "items" in schema:
        _parameters(schema["items"], names, texts, depth + 1)
