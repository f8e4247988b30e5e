"""Compare two runs: their inputs, their steps node by node, and their results. Pure and bounded.

Also compare two versions of a flow node by node, and list the nodes that a change affects.

A place is a path without attempts, items and iterations: `each/fetch`, `choice[0]/mail`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ...config.secrets import process_redaction
from ...expr.ast import refs
from ...fast_dataclass import dataclass
from ...ir import Flow, Graph, Node, node_parts
from ...journal.protocol import NO_STEPS, Entry, RunRow
from ...notations.records import outcome
from ...ops import Branch
from ...plans.rows import diff, step_key
from ...values import Json
from .instances import Instance, Instances, Region, body_at, without_attempts
from .program_rows import rows_of
from .rerun_plan import RerunPlan
from .steps import step

_SHAPE = ("ordered", "limit", "result")


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between two versions of a flow."""

    # The node; "" for the flow itself.
    place: str
    # "added", "removed" or "changed".
    kind: str
    # The names of the fields that differ, for a changed node.
    fields: tuple[str, ...] = ()
    source: str = ""
    """The position of the node in the newer document, or in the older one if the node was removed."""

    def __str__(self) -> str:
        message = f" in {', '.join(self.fields)}" if self.fields else ""
        return f"{self.place or 'the definition'}: {self.kind}{message}"


def flow_changes(old: Flow, new: Flow) -> list[Change]:
    """Return every difference between two flows that may change what a run does."""
    fields = [name for name in ("state", "input_schema", "output_schema", "timeout") if differs(old, new, name)]
    fields += [name for name in _SHAPE if differs(old.body, new.body, name)]
    top = [Change("", "changed", tuple(fields))] if fields else []
    return [*top, *_region_changes(old.body, new.body, "")]


def differs(a: Any, b: Any, name: str) -> bool:
    """Return True if two objects differ in a field."""
    return bool(getattr(a, name) != getattr(b, name))


def _region_changes(old: Graph, new: Graph, prefix: str) -> Iterator[Change]:
    old_nodes, new_nodes = {n.id: n for n in old.nodes}, {n.id: n for n in new.nodes}
    for id, node in new_nodes.items():
        if id not in old_nodes:
            yield Change(prefix + id, "added", (), node.meta.source)
            continue
        old_node = old_nodes[id]
        fields = tuple(_changed_fields(old_node, node))
        if fields:
            yield Change(prefix + id, "changed", fields, node.meta.source)
        if type(old_node.op) is type(node.op):
            for label in region_labels(node):
                new_body, old_body = body_at(node, label), body_at(old_node, label)
                if new_body is not None and old_body is not None:
                    yield from _region_changes(old_body, new_body, inner_prefix(prefix + id, label))
    for id, node in old_nodes.items():
        if id not in new_nodes:
            yield Change(prefix + id, "removed", (), node.meta.source)


def _changed_fields(old: Node, new: Node) -> Iterator[str]:
    if type(old.op) is not type(new.op):
        yield "kind"
    else:
        for field in dataclasses.fields(new.op):  # type: ignore[arg-type]
            before, after = (_without_nodes(getattr(node.op, field.name)) for node in (old, new))
            if field.compare and before != after:
                yield new.meta.labels.get(field.name, field.name)
    for name in ("after", "gate", "when", "result", "writes", "policy"):
        if differs(old, new, name):
            yield new.meta.labels.get(name, name)


def _without_nodes(value: Any) -> Any:
    """Return a field of an op without the nodes in its regions, which are compared separately."""
    if isinstance(value, Graph):
        return tuple(_without_nodes(getattr(value, name)) for name in _SHAPE)
    return tuple(map(_without_nodes, value)) if isinstance(value, tuple) else value


def region_labels(node: Node) -> list[str]:
    """Return the labels of the regions of a node, known before any of them has run."""
    if isinstance(node.op, Branch):
        return [*map(str, range(len(node.op.arms))), "else"]
    return [""]


def inner_prefix(place: str, label: str) -> str:
    """Return the prefix of the places inside a node."""
    return f"{place}[{label}]/" if label else f"{place}/"


class AffectedParts:
    """Collect the parts of a flow that a change can affect, in `plan`."""

    # The tree of instances comes from the flow alone, without a record: each node has one instance and one attempt, and
    # each region exists once, whether or not a run entered it. So a path in `plan` is a place, which stands for all
    # attempts, items and iterations.
    #
    # A node that reads something changed is added with `RerunPlan.rerun`: it starts again. If only its inside changed
    # (a node was removed there, or the result of a region reads something changed), it is added with
    # `continue_attempt`: the unaffected nodes inside keep what they recorded, and only the end of the node is computed
    # again.

    def __init__(self, flow: Flow) -> None:
        self.flow, self.plan = flow, RerunPlan()
        self._tree = Instances(flow.body, ())
        self._instances: dict[str, Instance] = {}
        self._add_instances(self._tree.root)

    def _add_instances(self, region: Region) -> None:
        for node in region.graph.nodes:
            instance = region.nodes[node.id] = Instance(node, region)
            self._instances[instance.base] = instance
            attempt = instance.attempt(1)
            for label in region_labels(node):
                graph = body_at(node, label)
                if graph is not None:
                    inner = attempt.inside[label] = Region(graph, inner_prefix(instance.base, label), attempt, label)
                    self._add_instances(inner)

    def add_changes(self, changes_made: list[Change]) -> None:
        """Add everything that these changes can affect."""
        for item in changes_made:
            if not item.place and "state" in item.fields:
                self._rerun_where(lambda expr: any(ref.root == "state" for ref in refs(expr)))
            instance = self._instances.get(item.place)
            if instance is not None:
                self.plan.rerun(instance)
                continue
            # A removed node may change the result of the nodes around it.
            place = item.place.rpartition("/")[0]
            owner = self._instances.get(place.partition("[")[0] if place.endswith("]") else place)
            if owner is not None:
                self.plan.continue_attempt(owner.attempt(1))

    def add_input(self) -> None:
        """Add everything that a different input can affect."""
        self._rerun_where(lambda expr: any(ref.root == "input" for ref in refs(expr)))

    def _rerun_where(self, reads: Callable[[Any], bool]) -> None:
        for instance in list(self._instances.values()):
            for _, part in node_parts(instance.node):
                if not isinstance(part, Graph) and reads(part):
                    self.plan.rerun(instance)
                elif isinstance(part, Graph) and reads(part.result):
                    self.plan.continue_attempt(instance.attempt(1))


def place_of(instance: Instance) -> str:
    """Return the place of a node instance in its flow."""
    owner = instance.region.owner
    if owner is None:
        return instance.node.id
    label = instance.region.label if isinstance(owner.instance.node.op, Branch) else ""
    return inner_prefix(place_of(owner.instance), label) + instance.node.id


MAX_DIFFERENCES: Final = 20
"""Differences that are listed for one value; more are only counted."""
MAX_NODES: Final = 1000
_MAX_TEXT: Final = 200
_MISSING: Final = object()


class RecordedRun(NamedTuple):
    """A run to compare: its row, and its entries in the order of recording."""

    row: RunRow
    entries: Iterable[Entry]


def compare_runs(a: RecordedRun, b: RecordedRun, definition: list[Change]) -> dict[str, Json]:
    """Compare two runs: their status and times, then everything that differs."""
    entries_a, entries_b = list(a.entries), list(b.entries)
    errors = [_message(a.row.error), _message(b.row.error)]
    nodes, same = _compare_steps(_last_steps(entries_a, {}), _last_steps(entries_b, _aligned(entries_a, entries_b)))
    return {
        "a": _run_header(a.row),
        "b": _run_header(b.row),
        "definition": [{"path": c.place, "what": c.kind, "fields": list(c.fields)} for c in definition],
        "input": process_redaction().value(value_differences(a.row.input, b.row.input)),
        "nodes": nodes[:MAX_NODES],
        "nodesLeftOff": max(0, len(nodes) - MAX_NODES),
        "same": same,
        "result": value_differences(_answer(a.row), _answer(b.row)),
        "error": None if errors[0] == errors[1] else errors,
    }


def value_differences(a: Json, b: Json) -> list[dict[str, Json]]:
    """Return the places where two values differ (`rows[3].price`); a missing side is left out."""

    # After `MAX_DIFFERENCES` places, one last entry counts the others.
    result: list[dict[str, Json]] = []
    more = 0
    for path, x, y in _walk_differences(a, b, ""):
        if len(result) == MAX_DIFFERENCES:
            more += 1
            continue
        reported: dict[str, Json] = {"path": path}
        if x is not _MISSING:
            reported["a"] = _shorten(x)
        if y is not _MISSING:
            reported["b"] = _shorten(y)
        result.append(reported)
    return [*result, {"path": "", "more": more}] if more else result


def _walk_differences(a: Any, b: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    waiting = [(path, a, b)]
    while waiting:
        path, a, b = waiting.pop()
        if type(a) is dict and type(b) is dict:
            keys = [*a, *(key for key in b if key not in a)]
            inner = [(_join_path(path, key), a.get(key, _MISSING), b.get(key, _MISSING)) for key in keys]
        elif type(a) is list and type(b) is list:
            longest = range(max(len(a), len(b)))
            inner = [(f"{path}[{i}]", _item_or_missing(a, i), _item_or_missing(b, i)) for i in longest]
        else:
            if a is _MISSING or b is _MISSING or a != b or type(a) is not type(b):
                yield path, a, b
            continue
        waiting += reversed(inner)


def _join_path(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _item_or_missing(items: list[Any], index: int) -> Any:
    return items[index] if index < len(items) else _MISSING


def _shorten(value: Json, depth: int = 3) -> Json:
    """Shorten a value for display."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_TEXT else f"{value[:_MAX_TEXT]}… ({len(value)} characters)"
    if isinstance(value, list):
        if not depth or len(value) > MAX_DIFFERENCES:
            return f"a list of {len(value)}"
        return [_shorten(item, depth - 1) for item in value]
    if isinstance(value, dict):
        if not depth or len(value) > MAX_DIFFERENCES:
            return f"an object of {len(value)}"
        return {key: _shorten(item, depth - 1) for key, item in value.items()}
    return value


def _run_header(row: RunRow) -> dict[str, Json]:
    took = None if row.ended_at is None else round((row.spent or row.ended_at - row.started_at) * 1000, 3)
    return {"runId": row.id, "name": row.name, "status": row.status, "fingerprint": row.fingerprint, "ms": took}


def _answer(row: RunRow) -> Json:
    """Return the answer of a run without the fields that differ between any two runs."""
    if not isinstance(row.result, dict):
        return row.result
    return {
        key: value
        for key, value in outcome(row.result, row.kind).to_answer().items()
        if key not in ("runId", "duration")
    }


def _message(error: Json) -> Json:
    return error.get("message") if isinstance(error, dict) else error


def _aligned(a: Iterable[Entry], b: Iterable[Entry]) -> dict[str, str]:
    """Map the steps of programs of one run to the steps of another run that they are compared with."""

    # Steps are compared by path and call, then by their calls, then by path and tool. A step without a counterpart gets
    # a name that no step of the other run has.
    aligned: dict[str, str] = {}
    rows_a, rows_b = rows_of(a), rows_of(b)
    for program in rows_a.keys() & rows_b.keys():
        for before, after in diff(rows_a[program], rows_b[program]):
            if after is not None:
                counterpart = "" if before is None else f"{program}[{step_key(before.path)}]"
                place = f"{program}[{step_key(after.path)}]"
                aligned[place] = counterpart or f"{place} "
    return aligned


def _last_steps(facts: Iterable[Entry], aligned: Mapping[str, str]) -> dict[str, dict[str, Json]]:
    """Return the last step of each node instance, in order, by its path or that of the step it is compared with."""
    result: dict[str, dict[str, Json]] = {}
    for entry in facts:
        if entry.kind not in NO_STEPS:
            reported, key = step(entry), without_attempts(entry.path)
            place, end, rest = key.partition("]")
            key = aligned.get(place + end, place + end) + rest
            if reported["status"] != "decided" or key not in result:
                result[key] = reported
    return result


def _compare_steps(a: dict[str, dict[str, Json]], b: dict[str, dict[str, Json]]) -> tuple[list[Json], int]:
    """Compare the steps of two runs by path; return the differences, and how many steps are equal."""
    result: list[Json] = []
    same = 0
    for path in [*a, *(path for path in b if path not in a)]:
        step_a, step_b = a.get(path), b.get(path)
        if step_a is None or step_b is None:
            what = "added" if step_a is None else "removed"
            present: Any = step_a or step_b
            own = without_attempts(str(present["path"]))
            result.append({"path": own, "what": what, "status": present["status"], "ms": present["ms"]})
            continue
        # Times differ between any two runs, so only status, value and error count as differences.
        value = value_differences(_shown_value(step_a), _shown_value(step_b))
        error = [_message(step_a["error"]), _message(step_b["error"])]
        if step_a["status"] == step_b["status"] and not value and error[0] == error[1]:
            same += 1
            continue
        result.append(
            {
                "path": path,
                "what": "changed",
                "status": [step_a["status"], step_b["status"]],
                "value": value,
                "error": error if error[0] != error[1] else None,
                "ms": [step_a["ms"], step_b["ms"]],
            }
        )
    return result, same


def _shown_value(step: dict[str, Json]) -> Json:
    return step["decision"] if step["status"] == "decided" else step["value"]
