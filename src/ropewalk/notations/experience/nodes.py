"""Read the nodes of an experience: the fields of each kind, error policies, for_each and the source of a dataset.

Refused are fields that a kind has no use for, missing ones, and more writes than a kind has values. `NODE` lists every
field with its checker; `ONLY_FOR`, `NEEDED` and `WRITES` say which kinds have, need and write what. To add a kind,
name it in `KINDS` and in these tables, then compile it in `compile.py`.

The source of a dataset has two forms. `{file: x.csv, format: csv}` names the kind by its key. `{type: file,
uri: x.csv, format: csv}` names it by `type`; it is read into the first form, so that only this file knows both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from ...expr.ast import Path
from ...expr.reference_paths import read_path
from ...fast_dataclass import dataclass
from ...values import Json, did_you_mean
from .. import fields as f
from ..fields import Checker, Report, add_problem, check_schema, check_wait_kind, join, read_object
from ..node_fields import VALUE_NULLS, check_fallback, checkers, spellings
from ..undo import check_undo, check_undos

SOURCES: Final[dict[str, tuple[str, ...]]] = {
    "file": ("format",),
    "sqlite": ("query",),
    "http": ("format", "method", "body"),
    "mcp-resource": ("server",),
}
"""The kinds of source, and the fields that each may have in addition to its own."""
NEEDS: Final = {"sqlite": "query", "mcp-resource": "server"}
METHODS: Final = ("GET", "POST")


def method(value: Json, path: str, report: Report) -> Json:
    """Check the method of a request."""
    word = value.strip().upper() if isinstance(value, str) else value
    if word not in METHODS:
        add_problem(report, path, f"must be {' or '.join(METHODS)}, not {value!r}")
        return METHODS[0]
    return word


_MORE: Final[dict[str, Checker]] = {
    "query": f.name,
    "server": f.name,
    "format": f.one_of(("csv", "json", "jsonl")),
    "method": method,
    "body": f.anything,
}
SOURCE: Final[dict[str, Checker]] = {**dict.fromkeys(SOURCES, f.name), **_MORE}
TYPED: Final[dict[str, Checker]] = {"type": f.one_of(tuple(SOURCES)), "uri": f.name, "url": f.name, **_MORE}


def source_of(value: Json, path: str, report: Report) -> dict[str, Json]:
    """Read a source in either form; the result names its kind by a key of `SOURCES`."""
    if isinstance(value, Mapping) and "type" in value:
        return _read_typed_source(value, path, report)
    source = read_object(value, SOURCE, path, report)
    if not isinstance(value, Mapping):
        return source
    kinds = [key for key in SOURCES if key in source]
    if len(kinds) == 1:
        _check_source(kinds[0], source, path, report)
    else:
        reason = f"not both {' and '.join(kinds)}" if kinds else "none is given"
        add_problem(report, path, f"a dataset comes from one of {', '.join(SOURCES)}; {reason}")
    return source


def _read_typed_source(value: Mapping[str, Json], path: str, report: Report) -> dict[str, Json]:
    """Read the second form: `{type: sqlite, uri: x.db, query: ...}` -> `{sqlite: x.db, query: ...}`."""
    fields = read_object(value, TYPED, path, report, required=("type",))
    kind = str(fields.pop("type", "") or "")
    if kind not in SOURCES:
        return {}
    place, other_place = ("url", "uri") if kind == "http" else ("uri", "url")
    if place not in fields and other_place in fields:
        fields[place] = fields.pop(other_place)
    elif other_place in fields:
        add_problem(report, join(path, other_place), f"this {kind} source already has a {place}; remove one of them")
        del fields[other_place]
    if place not in fields:
        add_problem(report, join(path, place), f"required for a source of the type {kind}")
        return {}
    if kind == "http":
        fields.setdefault("format", "json")  # the runtime that this form comes from reads every answer as JSON
    source = {kind: fields.pop(place), **fields}
    _check_source(kind, source, path, report)
    return source


def _check_source(kind: str, source: dict[str, Json], path: str, report: Report) -> None:
    """Report the fields that a source of this kind has no use for, or needs."""
    for key in source:
        if key != kind and key not in SOURCES[kind]:
            near = did_you_mean(key, SOURCES[kind])
            add_problem(report, join(path, key), f"a {kind} source has no {key}", near)
    needed = NEEDS.get(kind)
    if needed is not None and needed not in source:
        add_problem(report, join(path, needed), f"required for a {kind} source")


KINDS: Final = ("tool", "dataset", "call", "experience", "agent", "skill", "cli-agent", "wait", "value", "delay")
PROVIDERS: Final = ("claude-code", "codex", "gemini")
SCOPES: Final = ("isolated", "shared")
SHARED_STATE: Final = "_shared_state"
"""The argument that passes the state of the outer experience to an inner one that shares it."""
GIVEN: Final = ("_state", "_edge_inputs", "_item", "_item_index", "$item", "$index", "_env")
"""The arguments that every module gets from the run, in addition to its own."""


def identifier(value: Json, path: str, report: Report) -> Json:
    """Check a name that references may contain: letters, digits and underscores."""
    if not isinstance(value, str):
        add_problem(report, path, f"must be a name, not {f.type_name(value)}")
        return ""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        near = re.sub(r"\W", "_", value, flags=re.ASCII)
        near = f"_{near}" if near[:1].isdigit() else near
        message = f"must be letters, digits and underscores and not begin with a digit, not {value!r}"
        add_problem(report, path, message, near.strip("_") and near)
    return value


def path_in(text: str) -> Path | None:
    """Return the steps of a path such as `data.rows[0]`; None if the text is not a path."""
    text = text.removeprefix("$")
    path, end = read_path(text if text[:1] in (".", "[", "") else f".{text}", 0, state=True, loose=True)
    return path if end >= len(text) else None


def output(value: Json, path: str, report: Report) -> Json:
    """Check a path into a result."""
    if f.name(value, path, report) and isinstance(value, str) and value.strip() and path_in(value) is None:
        add_problem(report, path, f"{value!r} is not a path into a result; write it like data.rows[0]")
    return value


NODE: Final[dict[str, Checker]] = {
    "id": identifier,
    "kind": f.one_of(KINDS),
    "impl": f.name,
    "args": f.mapping,
    "reads": f.names,
    "source": f.anything,
    "tool": f.name,
    "undo": check_undo,
    "undos": check_undos,
    "output": output,
    "prompt": f.name,
    "tools": f.names,
    "output_schema": f.anything,
    "schema": f.anything,
    "model": f.name,
    "inputs": f.mapping,
    "max_rounds": f.positive,
    "provider": f.one_of(PROVIDERS),
    "output_format": f.one_of(("text", "json")),
    "timeout_ms": f.positive_milliseconds,
    "workdir": f.name,
    "extra_args": f.names,
    "state_scope": f.one_of(SCOPES),
    "event": f.name,
    "approval": f.name,
    "value": f.anything,
    "delay": f.milliseconds,
    **checkers("experience"),
}
OTHERS: Final = {"timeout_ms": "timeout", "schema": "output_schema"}
"""Fields that are other names of fields; nodes have either one."""
MODELS: Final = ("agent", "skill", "cli-agent")
"""The kinds that ask a model, one of them through a program."""
ONLY_FOR: Final[dict[str, tuple[str, ...]]] = {
    "impl": ("tool", "experience", "skill"),
    "args": ("tool", "call", "experience", *MODELS),
    "source": ("dataset",),
    "tool": ("call",),
    "undo": ("tool", "call", "experience"),
    "undos": ("agent", "skill"),
    "output": ("call",),
    "prompt": ("agent", "cli-agent"),
    "tools": ("agent", "skill"),
    "output_schema": MODELS,
    "schema": MODELS,
    "model": MODELS,
    "inputs": ("skill",),
    "max_rounds": ("agent", "skill"),
    "provider": ("cli-agent",),
    "output_format": ("cli-agent",),
    "workdir": ("cli-agent",),
    "extra_args": ("cli-agent",),
    "state_scope": ("experience",),
    "event": ("wait",),
    "approval": ("wait",),
    "value": ("value",),
    "delay": ("delay",),
}
NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "tool": ("impl",),
    "dataset": ("source",),
    "call": ("tool",),
    "experience": ("impl",),
    "agent": ("prompt",),
    "skill": ("impl",),
    "cli-agent": ("provider", "prompt"),
    "value": ("value",),
    "delay": ("delay",),
}
WRITES: Final = {
    "dataset": (1, 1),
    "call": (0, 1),
    "experience": (0, 1),
    "wait": (0, 1),
    "value": (0, 1),
    "delay": (0, 0),
}
"""How many fields of the state a node of this kind writes, at least and at most; the others write any number."""


@dataclass(frozen=True, slots=True)
class ExperienceNode:
    """A node as read: its place in the document, and its fields in the documented spelling."""

    path: str
    fields: dict[str, Json]

    @property
    def id(self) -> str:
        """The id, "" without one."""
        return str(self.fields.get("id", ""))

    @property
    def kind(self) -> str:
        """One of `KINDS`, "" if the document names no such kind."""
        return str(self.fields.get("kind", ""))

    @property
    def each(self) -> bool:
        """True if the node runs once for each item."""
        return "for_each" in self.fields

    def get(self, key: str, default: Json = None) -> Json:
        """Return a field, or the default if the document does not have it."""
        return self.fields.get(key, default)


def list_of(value: Json, path: str, report: Report) -> Iterator[tuple[str, Json]]:
    """Yield the elements of a list, each with its path; null counts as an empty list."""
    if value is not None and not isinstance(value, list):
        add_problem(report, path, f"must be a list, not {f.type_name(value)}")
    elif value is not None:
        for i, item in enumerate(value):
            yield f"{path}[{i}]", item


def node_of(value: Json, path: str, report: Report, expected: str = "an object") -> ExperienceNode:
    """Read one node."""
    fields = read_object(
        value,
        NODE,
        path,
        report,
        required=("id", "kind"),
        nulls=("value", *VALUE_NULLS),
        expected=expected,
        others=spellings("experience"),
    )
    check_fallback(fields, "experience", path, report)
    # Both are in milliseconds; only the program of a `cli-agent` gets its timeout as an argument.
    own, other = ("timeout_ms", "timeout") if fields.get("kind") == "cli-agent" else ("timeout", "timeout_ms")
    if other in fields:
        value = fields.pop(other)
        if own in fields:
            add_problem(report, join(path, other), f"is another name of {own}; give one of them")
        elif value:
            fields[own] = value
    if "source" in fields:
        fields["source"] = source_of(fields["source"], join(path, "source"), report)
    _read_schema(fields, path, report)
    node = ExperienceNode(path, fields)
    if node.kind:
        _check_fields(node, report)
        _check_writes(node, report)
    return node


def _read_schema(fields: dict[str, Json], path: str, report: Report) -> None:
    """Read `output_schema`, or `schema`, its other name: a JSON Schema, or the path of a file with one."""
    key = "output_schema" if "output_schema" in fields else "schema"
    if key not in fields:
        return
    if "schema" in fields and key != "schema":
        add_problem(report, join(path, "schema"), "is another name of output_schema; give one of them")
    schema = fields[key]
    if isinstance(schema, str):
        fields["output_schema"] = f.name(schema, join(path, key), report)
    elif check_schema(schema, join(path, key), report):
        fields["output_schema"] = schema
    else:
        del fields[key]
    fields.pop("schema", None)


def _check_fields(node: ExperienceNode, report: Report) -> None:
    """Report the fields that the node's kind needs, or has no use for."""
    kind = node.kind
    for needed in NEEDED.get(kind, ()):
        if needed not in node.fields:
            add_problem(report, join(node.path, needed), f"required for {_a(kind)} node")
    for key in node.fields:
        kinds = ONLY_FOR.get(key)
        if kinds is not None and kind not in kinds:
            message = f"{_a(kind)} node has no {key}; only {' or '.join(kinds)} nodes do"
            add_problem(report, join(node.path, key), message)
    if kind == "tool":
        for key in node.get("args", ()):
            if key in GIVEN:
                message = "the run passes an argument of this name to every module; choose another name"
                add_problem(report, join(node.path, f"args.{key}"), message)
    if kind == "wait":
        check_wait_kind(node.fields, "a wait node ", node.path, report)


def _check_writes(node: ExperienceNode, report: Report) -> None:
    """Check how many fields of the state a node writes."""
    kind = node.kind
    count = len(node.get("writes", []))
    least, limit = WRITES.get(kind, (0, count))
    if kind == "experience" and node.get("state_scope") == "shared":
        limit = max(limit, count)  # each field gets the one of its name
    elif kind in MODELS and "output_schema" not in node.fields and node.get("output_format") != "json":
        limit = 1  # a text goes to one field
    if not least <= count <= limit:
        expected = "exactly one field" if least == limit else "at most one field"
        instead = "; with a schema it writes several" if kind in MODELS else ""
        message = f"{_a(kind)} node writes {expected} of the state, not {count}{instead}"
        add_problem(report, join(node.path, "writes"), message)


def _a(kind: str) -> str:
    return f"an {kind}" if kind[:1] in "aeiou" else f"a {kind}"
