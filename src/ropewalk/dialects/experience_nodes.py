"""The nodes of an experience as read: fields by kind, error policies, for_each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from ..expr.ast import Path
from ..expr.paths import walk
from ..frozen import dataclass
from ..values import Json
from . import fields as f
from .experience_source import source_of
from .fields import Checker, Report, join, object_of, say
from .nodes import is_schema

KINDS: Final = ("tool", "dataset", "call", "experience", "agent", "skill", "cli-agent", "wait", "value", "delay")
PROVIDERS: Final = ("claude-code", "codex", "gemini")
SCOPES: Final = ("isolated", "shared")
SHARED_STATE: Final = "_shared_state"
"""The argument in which an experience gets the state of the one that runs it, where it shares that."""
GIVEN: Final = ("_state", "_edge_inputs", "_item", "_item_index", "$item", "$index", "_env")
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
    "schema": f.anything,
    "model": f.name,
    "inputs": f.mapping,
    "max_rounds": f.positive,
    "provider": f.one_of(PROVIDERS),
    "output_format": f.one_of(("text", "json")),
    "timeout_ms": f.positive,
    "workdir": f.name,
    "extra_args": f.names,
    "state_scope": f.one_of(SCOPES),
    "event": f.name,
    "approval": f.name,
    "timeout": f.number,
    "when": f.condition,
    "value": f.anything,
    "delay": f.number,
}
MODELS: Final = ("agent", "skill", "cli-agent")
"""The kinds that ask a model, one of them through a program."""
ONLY_FOR: Final[dict[str, tuple[str, ...]]] = {
    "impl": ("tool", "experience", "skill"),
    "args": ("tool", "call", "experience", *MODELS),
    "source": ("dataset",),
    "tool": ("call",),
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
    "timeout_ms": ("cli-agent",),
    "workdir": ("cli-agent",),
    "extra_args": ("cli-agent",),
    "state_scope": ("experience",),
    "event": ("wait",),
    "approval": ("wait",),
    "timeout": ("wait",),
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
        given["source"] = source_of(given["source"], join(path, "source"), report)
    _one_schema(given, path, report)
    node = ExperienceNode(path, given)
    if node.kind:
        _fits(node, report)
    return node


def _one_schema(given: dict[str, Json], path: str, report: Report) -> None:
    """`schema` is another word for `output_schema`; the text of either is the path of a file with the schema."""
    key = "output_schema" if "output_schema" in given else "schema"
    if key not in given:
        return
    if "schema" in given and key != "schema":
        say(report, join(path, "schema"), "is another name of output_schema; give one of them")
        del given["schema"]
    if isinstance(given[key], str):
        given["output_schema"] = f.name(given[key], join(path, key), report)
    elif is_schema(given[key], join(path, key), report):
        given["output_schema"] = given[key]
    else:
        del given[key]
    given.pop("schema", None)


def _fits(node: ExperienceNode, report: Report) -> None:
    """Fields that the node's kind needs, or has no use for."""
    kind = node.kind
    for needed in NEEDED.get(kind, ()):
        if needed not in node.fields:
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
    if kind == "experience":
        most = max(most, len(writes) * (node.get("state_scope") == "shared"))  # each gets the one of its name
    elif kind in MODELS and "output_schema" not in node.fields and node.get("output_format") != "json":
        most = 1  # a text goes to one field
    if not least <= len(writes) <= most:
        said = "exactly one field" if least == most else "at most one field"
        instead = "; with a schema it writes several" if kind in MODELS else ""
        say(
            report, join(node.path, "writes"), f"{_a(kind)} node writes {said} of the state, not {len(writes)}{instead}"
        )


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


def retry_of(given: dict[str, Any]) -> tuple[int, float, bool]:
    """Attempts, base pause in seconds and whether it grows linearly, with the defaults."""
    return (
        int(given.get("attempts", 3)),
        float(given.get("base_ms", 100)) / 1000,
        given.get("backoff", "exponential") == "linear",
    )
