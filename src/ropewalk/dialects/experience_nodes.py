"""The nodes of an experience as read: fields by kind, error policies, for_each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..expr.ast import Path
from ..expr.paths import walk
from ..frozen import dataclass
from ..values import Json
from . import fields as f
from .fields import Checker, Report, join, known_keys, say
from .nodes import is_schema

KINDS: Final = ("tool", "dataset", "call", "experience", "agent", "wait", "value", "delay")
GIVEN: Final = ("_state", "_edge_inputs", "_item", "_item_index", "_env")
"""What a module is given beside its own arguments, under these names."""
POLICIES: Final = ("fail_run", "skip", "retry", "continue", "fallback")
BACKOFFS: Final = ("linear", "exponential")


def identifier(value: Json, path: str, report: Report) -> Json:
    """A name that may stand in a reference: letters, digits and underscores."""
    if not isinstance(value, str):
        say(report, path, f"must be a name, not {f.kind(value)}")
        return ""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        near = re.sub(r"\W", "_", value, flags=re.ASCII)
        near = f"_{near}" if near[:1].isdigit() else near
        message = f"must be letters, digits and underscores and not begin with a digit, not {value!r}"
        say(report, path, message, near.strip("_") and near)
    return value


def path_in(text: str) -> Path | None:
    """The steps of `data.rows[0]`; None when it is no path."""
    text = text.removeprefix("$")
    path, end = walk(text if text[:1] in (".", "[", "") else f".{text}", 0, state=True, loose=True)
    return path if end >= len(text) else None


def output(value: Json, path: str, report: Report) -> Json:
    """A path into a result."""
    if f.name(value, path, report) and isinstance(value, str) and value.strip() and path_in(value) is None:
        say(report, path, f"{value!r} is no path into a result; one is written like data.rows[0]")
    return value


NODE: Final[dict[str, Checker]] = {
    "id": identifier,
    "kind": f.one_of(KINDS),
    "description": f.text,
    "impl": f.name,
    "args": f.mapping,
    "reads": f.names,
    "writes": f.names,
    "phase": f.name,
    "on_error": f.anything,
    "for_each": f.anything,
    "source": f.anything,
    "tool": f.name,
    "output": output,
    "prompt": f.name,
    "tools": f.names,
    "output_schema": f.anything,
    "max_rounds": f.positive,
    "event": f.name,
    "approval": f.name,
    "timeout": f.number,
    "when": f.condition,
    "value": f.anything,
    "delay": f.number,
}
ONLY_FOR: Final[dict[str, tuple[str, ...]]] = {
    "impl": ("tool", "experience"),
    "args": ("tool", "call", "experience"),
    "source": ("dataset",),
    "tool": ("call",),
    "output": ("call",),
    "prompt": ("agent",),
    "tools": ("agent",),
    "output_schema": ("agent",),
    "max_rounds": ("agent",),
    "event": ("wait",),
    "approval": ("wait",),
    "timeout": ("wait",),
    "value": ("value",),
    "delay": ("delay",),
}
NEEDED: Final = {"tool": "impl", "dataset": "source", "call": "tool", "experience": "impl", "agent": "prompt"}
NEEDED.update({"value": "value", "delay": "delay"})
WRITES: Final = {"dataset": (1, 1), "call": (0, 1), "experience": (0, 1), "agent": (0, 1), "wait": (0, 1)}
WRITES.update({"value": (0, 1), "delay": (0, 0)})
"""How many fields of the state a node of this kind writes, at least and at most."""

FOR_EACH: Final[dict[str, Checker]] = {"source": f.anything, "concurrency": f.positive}
ON_ERROR: Final[dict[str, Checker]] = {
    "policy": f.one_of(POLICIES),
    "attempts": f.positive,
    "backoff": f.one_of(BACKOFFS),
    "base_ms": f.number,
    "value": f.anything,
}
OF_POLICY: Final = {"value": "fallback"}
"""The fields of an error policy that are not for `retry`."""
SOURCES: Final = {
    "file": ("format",),
    "sqlite": ("query",),
    "http": ("format",),
    "mcp-resource": ("server",),
}
"""Where a dataset comes from, and what else is said about it."""
NEEDS: Final = {"sqlite": "query", "mcp-resource": "server"}
SOURCE: Final[dict[str, Checker]] = {
    **dict.fromkeys(("file", "sqlite", "http", "mcp-resource", "query", "server"), f.name),
    "format": f.one_of(("csv", "json", "jsonl")),
}


@dataclass(frozen=True, slots=True)
class ExperienceNode:
    """A node as read."""

    path: str
    fields: dict[str, Json]

    @property
    def id(self) -> str:
        return str(self.fields.get("id", ""))

    @property
    def kind(self) -> str:
        return str(self.fields.get("kind", ""))

    @property
    def each(self) -> bool:
        return "for_each" in self.fields

    def get(self, key: str, default: Json = None) -> Json:
        return self.fields.get(key, default)


def object_of(
    value: Json,
    known: Mapping[str, Checker],
    path: str,
    report: Report,
    *,
    required: tuple[str, ...] = (),
    nulls: tuple[str, ...] = (),
    what: str = "an object",
) -> dict[str, Json]:
    """The fields of an object, each checked; null counts as not given but where it is in `nulls`."""
    if not isinstance(value, Mapping):
        say(report, path, f"must be {what}, not {f.kind(value)}")
        return {}
    given = {k: v for k, v in known_keys(value, known, path, report).items() if v is not None or k in nulls}
    for key, item in given.items():
        given[key] = known[key](item, join(path, key), report)
    for key in required:
        if key not in given:
            say(report, join(path, key), "required")
    return given


def list_of(value: Json, path: str, report: Report) -> Iterator[tuple[str, Json]]:
    """The elements of a list, each with its path; null counts as none."""
    if value is not None and not isinstance(value, list):
        say(report, path, f"must be a list, not {f.kind(value)}")
    elif value is not None:
        for i, item in enumerate(value):
            yield f"{path}[{i}]", item


def node_of(value: Json, path: str, report: Report, what: str = "an object") -> ExperienceNode:
    """Read one node."""
    given = object_of(value, NODE, path, report, required=("id", "kind"), nulls=("value",), what=what)
    if "on_error" in given:
        given["on_error"] = _on_error(given["on_error"], join(path, "on_error"), report)
    if "for_each" in given:
        given["for_each"] = object_of(given["for_each"], FOR_EACH, join(path, "for_each"), report, required=("source",))
    if "source" in given:
        given["source"] = _source(given["source"], join(path, "source"), report)
    if "output_schema" in given and not is_schema(given["output_schema"], join(path, "output_schema"), report):
        del given["output_schema"]
    node = ExperienceNode(path, given)
    if node.kind:
        _fits(node, report)
    return node


def _fits(node: ExperienceNode, report: Report) -> None:
    """Fields that the node's kind needs, or has no use for."""
    kind = node.kind
    needed = NEEDED.get(kind)
    if needed is not None and needed not in node.fields:
        say(report, join(node.path, needed), f"required for {_a(kind)} node")
    for key in node.fields:
        kinds = ONLY_FOR.get(key)
        if kinds is not None and kind not in kinds:
            instead = "; how long a call may take is [limits] tool_timeout in ropewalk.toml" if key == "timeout" else ""
            said = f"{_a(kind)} node has no {key}; only {' or '.join(kinds)} nodes do{instead}"
            say(report, join(node.path, key), said)
    for key in node.get("args", ()) if kind == "tool" else ():
        if key in GIVEN:
            say(report, join(node.path, f"args.{key}"), "every module is given this by the run; take another name")
    if kind == "wait" and ("event" in node.fields) == ("approval" in node.fields):
        say(report, node.path, "a wait node needs either event or approval")
    writes = node.get("writes", [])
    least, most = WRITES.get(kind, (0, len(writes)))
    if not least <= len(writes) <= most:
        said = "exactly one field" if least == most else "at most one field"
        say(report, join(node.path, "writes"), f"{_a(kind)} node writes {said} of the state, not {len(writes)}")


def _a(kind: str) -> str:
    return f"an {kind}" if kind[:1] in "aeiou" else f"a {kind}"


def _on_error(value: Json, path: str, report: Report) -> dict[str, Json]:
    """`skip` or `{policy: skip}` -> `{policy: skip}`."""
    if isinstance(value, str):
        policy = f.one_of(POLICIES)(value, path, report)
        if policy == "fallback":
            say(report, path, "needs the value that stands in: {policy: fallback, value: ...}")
        return {"policy": policy}
    what = f"one of {', '.join(POLICIES)}, or an object"
    given = object_of(value, ON_ERROR, path, report, required=("policy",), nulls=("value",), what=what)
    for key in given:
        of = OF_POLICY.get(key, "retry")
        if key != "policy" and given.get("policy", of) not in (of, ""):
            say(report, join(path, key), f"only the policy {of} has {key}, this one is {given['policy']}")
    if given.get("policy") == "fallback" and "value" not in given:
        say(report, join(path, "value"), "required for the policy fallback")
    return given


def _source(value: Json, path: str, report: Report) -> dict[str, Json]:
    given = object_of(value, SOURCE, path, report)
    if not isinstance(value, dict):
        return given
    places = [key for key in SOURCES if key in given]
    if len(places) != 1:
        named = ", ".join(SOURCES)
        said = f"not both {' and '.join(places)}" if places else "and there is none"
        say(report, path, f"a dataset comes from one of {named}; {said}")
        return given
    [place] = places
    for key in given:
        if key != place and key not in SOURCES[place]:
            say(report, join(path, key), f"a {place} source has no {key}")
    needed = NEEDS.get(place)
    if needed is not None and needed not in given:
        say(report, join(path, needed), f"required for a {place} source")
    return given


def retry_of(given: dict[str, Any]) -> tuple[int, float, bool]:
    """Attempts, base pause in seconds and whether it grows linearly, with the defaults."""
    return (
        int(given.get("attempts", 3)),
        float(given.get("base_ms", 100)) / 1000,
        given.get("backoff", "exponential") == "linear",
    )
