"""The tools of a conversation: which ones, and their definitions for the Messages API.

`resolve_tools` accepts ids, functions, Tools, a Toolbox or `select(query)`. If a server is not reachable, its tools are
left out with a warning; an unknown name is an error. It refuses the loop's own tools and definitions that nothing runs.

`make_cards` gives each tool a name and a schema for the model. The API refuses names outside `[A-Za-z0-9_-]` or longer
than 64 characters, schemas with oneOf, anyOf, allOf or $ref at the top, and schemas that are not valid draft 2020-12.
Schemas are rewritten so that they accept everything that the original accepts; calls are checked against the original.
A tool that the API cannot take is left out, with the reason in `Cards.notes`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import orjson

from ..errors import ConfigError, InvalidFlow, InvalidTool, NotFound
from ..fast_dataclass import dataclass
from ..notations.agent import PLAN_OPERATIONS
from ..notations.fields import Report, add_problem
from ..ops import MODEL
from ..schema_drafts import modern_schema, refs_in, resolves
from ..select.options import THRESHOLD, Options, read_options
from ..select.tool_card import category_of
from ..tools.tool import Tool, parse_tool_id, tool_from
from ..tools.toolbox import Toolbox, ToolProxy
from ..values import Json, did_you_mean
from .model import ToolDefinition
from .tool_search import OfferedTools, widen

MAX_NAME_LENGTH: Final = 64
MAX_DESCRIPTION_LENGTH: Final = 20_000
"""The longest description for a model, in characters."""
_UNSAFE_CHARACTER: Final = re.compile(r"[^A-Za-z0-9_-]")
_PROPERTY_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_CHOICES: Final = ("oneOf", "anyOf", "allOf")
_MAX_DEPTH: Final = 20


@dataclass(frozen=True, slots=True)
class Card:
    """A tool's definition for the model, with the name by which the model knows it and the tool's id."""

    name: str
    tool: str
    definition: ToolDefinition
    read_only: bool


@dataclass(frozen=True, slots=True)
class Cards:
    """The tools of a conversation; `notes` say which tools or parts were left out or rewritten, and why."""

    cards: tuple[Card, ...]
    notes: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """The ids of tools that the API cannot take."""

    def by_name(self, name: Json) -> Card | None:
        """Return the tool with this name; None if the model invented the name."""
        return next((card for card in self.cards if card.name == name), None)

    def without_namespace(self, name: str) -> set[str]:
        """Return the model's names of all tools with this name, in any namespace."""
        return {card.name for card in self.cards if parse_tool_id(card.tool).name == name}


def make_cards(tools: Iterable[Tool], visible: Iterable[str] | None = None) -> Cards:
    """Return the definitions for the model of the visible tools, by default of all, in the same order."""

    # The names of the visible tools are unique among all: a name stays what it is when more tools become visible.
    listed = {tool.id: tool for tool in tools}
    names = assign_names(list(listed.values()))
    cards, notes, left_out = [], [], []
    for tool in listed.values() if visible is None else [listed[id] for id in visible if id in listed]:
        schema, changes = convert_input_schema(tool.input_schema)
        notes += [f"{tool.id}: {note}" for note in changes]
        if schema is None:
            left_out.append(tool.id)
            continue
        # The key "" holds a sentence about what the rewritten schema cannot express.
        texts = (tool.description, schema.pop("", None))
        full_text = "\n\n".join(text for text in texts if text and text.strip())
        description, changes = _shorten(full_text or tool.display_name)
        notes += [f"{tool.id}: {note}" for note in changes]
        definition: ToolDefinition = {
            "name": names[tool.id],
            "description": description,
            "input_schema": schema,
        }
        cards.append(Card(names[tool.id], tool.id, definition, not tool.has_side_effects))
    return Cards(tuple(cards), tuple(notes), tuple(left_out))


def assign_names(tools: Sequence[Tool]) -> dict[str, str]:
    """Return a unique name for each tool id."""

    # It is the tool's own name; in a conflict with its namespace in front; and with a part of a digest if that is too
    # long or still not unique.
    names = {tool.id: _safe_name(tool.name) for tool in tools}
    for spell in (lambda tool: _safe_name(f"{tool.namespace}_{tool.name}" if tool.namespace else tool.name), None):
        conflicts = {
            name for name, count in Counter(names.values()).items() if count > 1 or len(name) > MAX_NAME_LENGTH
        }
        for tool in tools:
            if names[tool.id] in conflicts:
                names[tool.id] = _digest_name(tool.id) if spell is None else spell(tool)
    return names


def check_definition(definition: Mapping[str, Any]) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Convert a tool definition to one that the API accepts."""
    if definition.get("type") not in (None, "custom"):
        return dict(definition), ()
    name, description, schema = definition.get("name"), definition.get("description"), definition.get("input_schema")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH or _UNSAFE_CHARACTER.search(name):
        return None, (f"left out: its name is not 1 to {MAX_NAME_LENGTH} letters, digits, _ or -",)
    if not isinstance(schema, Mapping):
        return None, ("left out: its input schema is not an object",)
    flat, notes = convert_input_schema(schema)
    if flat is None:
        return None, tuple(notes)
    hint = flat.pop("", None)
    checked: dict[str, Any] = {**definition, "input_schema": flat}
    text = "\n\n".join(text for text in (description, hint) if isinstance(text, str) and text.strip())
    checked["description"], changes = _shorten(text or name)
    return checked, (*notes, *changes)


def _shorten(description: str) -> tuple[str, list[str]]:
    if len(description) <= MAX_DESCRIPTION_LENGTH:
        return description, []
    size = f"{len(description):,} characters"
    return description[:MAX_DESCRIPTION_LENGTH], [
        f"its description has {size}; the model gets the first {MAX_DESCRIPTION_LENGTH:,}"
    ]


def _safe_name(text: str) -> str:
    return _UNSAFE_CHARACTER.sub("_", text)


def _digest_name(tool_id: str) -> str:
    mark = hashlib.sha256(tool_id.encode()).hexdigest()[:8]
    return f"{_safe_name(tool_id)[: MAX_NAME_LENGTH - 9]}_{mark}"


def convert_input_schema(schema: Mapping[str, Json]) -> tuple[dict[str, Any] | None, list[str]]:
    """Convert an input schema to one that the API accepts."""
    modern = modern_schema(schema)
    if modern.schema is None:
        return None, ["left out: its input schema is not a JSON Schema"]
    notes = [f"input schema{problem}; this part was left out" for problem in modern.lost]
    if modern.uses_old_keywords and not notes:
        notes = ["its input schema is of an older draft; the model gets it in draft 2020-12"]

    # The API wants an object without choices and references at the top.
    flat, changes = _flatten_top(dict(modern.schema), modern.schema, _MAX_DEPTH)
    notes += changes
    if "$ref" in schema and "$ref" not in modern.schema:
        flat = None
    if flat is None or not _takes_objects(flat):
        problem = "does not accept objects" if flat is not None else "has a $ref to something outside the schema"
        return None, [f"left out: its input schema {problem}"]
    flat["type"] = "object"
    _copy_missing_definitions(flat, modern.schema)

    # The API limits names of properties; only an optional property can be left out.
    properties = flat.get("properties")
    if isinstance(properties, dict):
        unsendable = [name for name in properties if not _PROPERTY_NAME.fullmatch(name)]
        required = flat.get("required") or []
        required_unsendable = [name for name in unsendable if isinstance(required, list) and name in required]
        if required_unsendable:
            return None, [f"left out: the API does not accept the name of its argument {required_unsendable[0]!r}"]
        if unsendable:
            flat["properties"] = {name: inner for name, inner in properties.items() if name not in unsendable}
            notes.append(f"the API does not accept the names of its arguments {', '.join(map(repr, unsendable))}")
    return flat, notes


def _takes_objects(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type", "object")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _copy_missing_definitions(flat: dict[str, Any], root: Mapping[str, Any]) -> None:
    """Copy to `$defs` the targets of references that flattening removed."""
    for _ in range(_MAX_DEPTH):
        missing = [ref for ref in dict.fromkeys(refs_in(flat)) if not resolves(ref, flat)]
        if not missing:
            return
        definitions = flat["$defs"] = dict(flat.get("$defs") or {})
        names: dict[str, str] = {}
        for ref in missing:
            name = "part_" + hashlib.sha256(ref.encode()).hexdigest()[:8]
            definitions[name] = _resolve_ref(ref, root) or {}
            names[ref] = f"#/$defs/{name}"
        flat.update(_rename_refs(flat, names))


def _rename_refs(node: Any, names: Mapping[str, str]) -> Any:
    if isinstance(node, Mapping):
        renamed = {key: inner if key in ("enum", "const", "default", "examples") else _rename_refs(inner, names)
                 for key, inner in node.items()}  # fmt: skip
        return {**renamed, "$ref": names[renamed["$ref"]]} if _ref_of(renamed) in names else renamed
    return [_rename_refs(inner, names) for inner in node] if isinstance(node, list) else node


def _ref_of(node: Mapping[str, Any]) -> str | None:
    ref = node.get("$ref")
    return ref if isinstance(ref, str) else None


def _flatten_top(
    schema: dict[str, Any], root: Mapping[str, Any], depth: int
) -> tuple[dict[str, Any] | None, list[str]]:
    """Return a schema without choices and references at its top, and a note for each change."""

    # The schema is None if a reference cannot be resolved within `depth` levels.
    notes: list[str] = []
    if "$ref" in schema:
        target = _resolve_ref(schema["$ref"], root) if depth else None
        if target is None:
            return None, notes
        inner, inner_notes = _flatten_top(target, root, depth - 1)
        if inner is None:
            return None, notes
        schema = _merge_all({key: value for key, value in schema.items() if key != "$ref"}, inner)
        notes += inner_notes

    # allOf merges exactly; of oneOf and anyOf the schema keeps what all forms share, and a sentence lists the forms.
    for choice in _CHOICES:
        variants = schema.pop(choice, None)
        if not isinstance(variants, list):
            continue
        objects = [dict(variant) for variant in variants if isinstance(variant, dict) and depth]
        flats = [_flatten_top(variant, root, depth - 1)[0] for variant in objects]
        known = [variant for variant in flats if variant is not None]
        if choice == "allOf":
            for variant in known:
                schema = _merge_all(schema, variant)
            continue
        schema = _merge_all(schema, _merge_any(known))
        intro = f"Its arguments have {'exactly one' if choice == 'oneOf' else 'at least one'} of these forms: "
        forms = orjson.dumps([_without_definitions(variant) for variant in known]).decode()
        schema[""] = "\n".join(filter(None, (schema.get(""), intro + forms)))
        notes.append(
            f"{choice} at the top of its input schema is described in words; calls are checked against the original"
        )
    if "$defs" in root and "$defs" not in schema:
        schema["$defs"] = root["$defs"]
    return schema, notes


def _without_definitions(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in ("", "$defs", "definitions")}


def _merge_all(first: dict[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two object schemas into one that requires both; a property that differs must fit both its schemas."""
    merged = {**second, **first}
    first_properties, second_properties = first.get("properties") or {}, second.get("properties") or {}
    if first_properties or second_properties:
        merged["properties"] = {**second_properties, **first_properties}
        for name in first_properties.keys() & second_properties.keys():
            if first_properties[name] != second_properties[name]:
                merged["properties"][name] = {"allOf": [first_properties[name], second_properties[name]]}
    required = dict.fromkeys([*(first.get("required") or ()), *(second.get("required") or ())])
    if required:
        merged["required"] = list(required)
    if isinstance(first.get("additionalProperties"), bool) or isinstance(second.get("additionalProperties"), bool):
        merged.pop("additionalProperties", None)  # one schema's extra properties are the other's own
    return merged


def _merge_any(variants: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Merge object schemas into one that accepts any of them: all properties, required if all require them."""
    properties: dict[str, list[Any]] = {}
    for variant in variants:
        for name, inner in (variant.get("properties") or {}).items():
            schemas = properties.setdefault(name, [])
            if inner not in schemas:
                schemas.append(inner)
    merged: dict[str, Any] = {}
    if properties:
        merged["properties"] = {
            name: schemas[0] if len(schemas) == 1 else {"anyOf": schemas} for name, schemas in properties.items()
        }
    required = [set(variant.get("required") or ()) for variant in variants]
    shared = set.intersection(*required) if required else set()
    if shared:
        merged["required"] = sorted(shared)
    return merged


def _resolve_ref(ref: Any, root: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema that a reference within `root` points to; None if it points to none."""
    if not isinstance(ref, str) or not ref.startswith("#/"):
        return None
    node: Any = root
    for step in ref[2:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list):
            node = node[int(step)] if step.isdecimal() and int(step) < len(node) else None
        else:
            node = node.get(step) if isinstance(node, Mapping) else None
    return dict(node) if isinstance(node, Mapping) else None


OWN_NAMESPACE = MODEL.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Selected:
    """A request for the tools that fit a query best, answered when the conversation begins."""

    query: str
    options: Mapping[str, Any]


def select(query: str, **options: Any) -> Selected:
    """Let the tool selector choose the tools of a conversation: `tools=select(query, max_results=8)`.

    Args:
        query: The task in words.
        **options: Options of the selector. `threshold` is 0 by default, because a tool too many does little harm.

    Returns:
        A value for the argument `tools` of `complete_with_tools`.

    Raises:
        InvalidInput: Options are invalid; the error lists every problem.
    """
    read_options(query, None, options)
    return Selected(query, {"threshold": 0, **{name: value for name, value in options.items() if value is not None}})


class Selector(Protocol):
    """Finds tools for a query, such as `ropewalk.select.selector.Selector`."""

    def select(self, query: str, options: Mapping[str, Any] | None = None, /, **more: Any) -> Any:
        """Find the tools that fit a query."""
        ...


ToolsArgument: TypeAlias = "Toolbox | Selected | OfferedTools | Iterable[str | Tool | Callable[..., Any]] | None"


async def resolve_tools(
    tools: ToolsArgument, toolbox: Toolbox, selector: Selector | None, *, lenient: bool = False
) -> tuple[OfferedTools, list[str]]:
    """Find the tools of a conversation and register those that are functions or Tools."""
    if tools is None:
        return OfferedTools([]), []
    if isinstance(tools, OfferedTools):
        return tools, []
    if isinstance(tools, Selected):
        selection = await _select_tools(tools, toolbox, selector)
        return selection, [] if selection.first else [f"no tool fits {tools.query!r}"]
    if isinstance(tools, Toolbox):
        ids_of_toolbox, failures = await _resolve_toolbox(tools, toolbox)
        return OfferedTools(ids_of_toolbox), failures
    if isinstance(tools, (str, Mapping)):
        raise TypeError(f"tools must be a list of ids, functions or Tools, not {type(tools).__name__}")

    # A name without a result has a server that is not reachable, which is only a warning.
    ids: dict[str, None] = {}
    warnings: list[str] = []
    for item in tools:
        if not isinstance(item, str):
            ids[_register(item if isinstance(item, Tool) else tool_from(item), toolbox)] = None
            continue
        try:
            id = await _resolve_name(item, toolbox)
        except NotFound as missing:
            if not lenient:
                raise
            warnings.append(f"{item} is left out: {missing}")
            continue
        if id is not None:
            ids[id] = None
        else:
            suggestion = closest_tool(item, toolbox.list())
            hint = f"; did you mean {suggestion!r}?" if suggestion else ""
            warnings.append(f"{item} is left out: {_failure_reason(item, toolbox)}{hint}")
    return OfferedTools(list(ids)), warnings


async def _resolve_toolbox(source: Toolbox, toolbox: Toolbox) -> tuple[list[str], list[str]]:
    """Connect another toolbox and register its tools as proxies, so that it runs them itself."""
    await source.connect()
    offered = [tool for tool in source.list() if tool.namespace != OWN_NAMESPACE]
    warnings = [f"{name}: {reason}" for name, reason in source.failures.items()]
    warnings += [
        f"{tool.id} is left out: it has no handler and no backend" for tool in offered if not source.backends(tool.id)
    ]
    ids = [tool.id for tool in offered if source.backends(tool.id)]
    for name in ids if source is not toolbox else ():
        _register(source.lend(name), toolbox)
    return ids, warnings


def _register(tool: Tool, toolbox: Toolbox) -> str:
    if tool.handler is None and tool.backend is None and not toolbox.backends(tool.id):
        hint = f"pass toolbox.lend({tool.id!r}) of the toolbox that runs it, or that toolbox itself"
        raise InvalidTool(f"tool {tool.id!r}: it cannot be called, because it has no handler and no backend; {hint}")
    known, registered = toolbox.get(tool.id), toolbox.local.get(tool.id)
    if known == tool and (registered == tool.handler or (tool.handler is None and tool.backend is None)):
        return tool.id
    if known is not None and known != tool and isinstance(registered, ToolProxy) and registered == tool.handler:
        toolbox.remove(tool.id)  # its server has changed its definition
    toolbox.register(tool)
    return tool.id


async def _resolve_name(name: str, toolbox: Toolbox) -> str | None:
    """Return the id of a tool by its id or by its unique name; None if its server may be down."""
    if name.partition(":")[0] == OWN_NAMESPACE and ":" in name and name not in PLAN_OPERATIONS:
        raise NotFound("tool", name, why="it belongs to the agent loop itself")
    if not toolbox.is_missing(name):
        return name
    if ":" in name:
        await toolbox.connect_for([name])
        if toolbox.get(name) is not None:
            return name
    else:
        await toolbox.connect()
        matches = [tool.id for tool in toolbox.list() if tool.name == name and tool.namespace != OWN_NAMESPACE]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise NotFound("tool", name, why=f"several tools have this name: {', '.join(sorted(matches))}")
    # A server that is not reachable may have the tool, so its name is not wrong yet.
    if _failure_reason(name, toolbox):
        return None
    available = [tool for tool in toolbox.list() if tool.namespace != OWN_NAMESPACE]
    if not available:
        raise NotFound(
            "tool", name, why="no tools are registered; pass the function itself, or an app with tools as app="
        )
    raise NotFound("tool", name, suggestion=closest_tool(name, available))


def tools_to_approve(
    approve: bool | Collection[str], ids: Sequence[str], tools: ToolsArgument, toolbox: Toolbox
) -> list[str]:
    """Return the ids of the tools that need an approval."""
    if isinstance(approve, bool):
        return list(ids) if approve else []
    if isinstance(approve, str):
        raise TypeError(f"approve must be True or a list of tools; write [{approve!r}]")
    approved_ids: dict[str, None] = {}
    report: Report = []
    also_allowed = toolbox.ids() if isinstance(tools, Selected) else []
    if tools is not None and not isinstance(tools, (Selected, OfferedTools, Toolbox)):
        also_allowed = [item for item in tools if isinstance(item, str)]

    # Report every wrong name at once.
    failures = tools.failures if isinstance(tools, Toolbox) else toolbox.failures
    by_name: dict[str, list[str]] = {}
    for id in ids:
        for name in {id, parse_tool_id(id).name}:
            by_name.setdefault(name, []).append(id)
    for i, name in enumerate(approve):
        matches = by_name.get(name, [])
        approved_ids |= dict.fromkeys(matches)
        if not matches and name not in also_allowed and name.partition(":")[0] not in failures:
            known_tools = [tool for tool in map(toolbox.get, ids) if tool is not None]
            add_problem(report, f"approve[{i}]", f"{name!r} is not one of the tools", closest_tool(name, known_tools))
    if report:
        raise InvalidFlow(report)
    return list(approved_ids)


def closest_tool(name: str, tools: Sequence[Tool]) -> str | None:
    """Return the id of the tool with the most similar id, or else with the most similar name."""
    id = did_you_mean(name, (tool.id for tool in tools))
    name_match = did_you_mean(name.rpartition(":")[2], (tool.name for tool in tools)) if id is None else None
    return id or next((tool.id for tool in tools if tool.name == name_match), None)


def _failure_reason(name: str, toolbox: Toolbox) -> str:
    """Return the failures of the servers that may have a tool; empty if all are reachable."""
    failures = toolbox.failures
    if ":" in name:
        return str(failures.get(name) or failures.get(name.partition(":")[0]) or "")
    return "; ".join(f"{server}: {reason}" for server, reason in failures.items())


async def _select_tools(request: Selected, toolbox: Toolbox, selector: Selector | None) -> OfferedTools:
    if selector is None:
        raise ConfigError("select() needs an app with a tool selector; pass app=, or name the tools")
    await toolbox.connect()
    options = read_options(request.query, None, request.options)
    among = [tool.id for tool in toolbox.list() if tool.namespace != OWN_NAMESPACE and _is_allowed(tool, options)]
    names = ("strategy", "maxResults", "max_results", "threshold", "context")
    kept = {name: value for name, value in request.options.items() if name in names}
    rows = selector.select(request.query, allowTools=among, **kept)["results"]
    selected = [str(row["name"]) for row in rows]
    # A threshold that a caller sets excludes tools that do not fit.
    return widen(selected, [row["score"] for row in rows], among if options.threshold < THRESHOLD else ())


def _is_allowed(tool: Tool, options: Options) -> bool:
    """Return True if the options of a selection allow a tool."""
    names = {tool.id, tool.name}
    return (
        (options.allow_tools is None or not names.isdisjoint(options.allow_tools))
        and names.isdisjoint(options.exclude_tools)
        and (options.category is None or category_of(tool) in options.category)
        and (options.namespace is None or tool.namespace in options.namespace)
    )
