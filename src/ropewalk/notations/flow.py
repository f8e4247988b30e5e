"""The notation `flow`: the JSON of the codec, which can hold every flow but the program of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import InvalidFlow, Problem
from ..ir import Flow, nodes_of
from ..ops import Program
from ..values import Json
from .registry import Compiled, failures


def fits(document: Mapping[str, Json]) -> bool:
    """Return True if a document without `kind` is the JSON of a flow."""
    return "ropewalk" in document


def write(flow: Flow, losses: list[Problem] | None = None) -> dict[str, Json]:
    """Write a flow as its JSON; calls that only exist in the directory of an experience are refused or lost."""
    from ..codec import flow_to_json  # other notations do not need the codec
    from .writing import directory_call_problems

    refused = list(directory_call_problems(flow.body))
    if losses is not None:
        losses += refused
    elif refused:
        raise InvalidFlow(refused)
    document = flow_to_json(flow)
    for region in document["regions"]:
        for node in region["nodes"]:
            _drop_labels(node.get("meta", {}))
    return {"kind": "flow", **document}


def _drop_labels(meta: dict[str, Json]) -> None:
    """Remove the names that the fields of a node have in another notation; here they have their own names."""

    # The word for a hidden node stays, because nothing else names what the node stands for.
    labels = meta.pop("labels", {})
    if meta.get("hidden") and "hidden" in labels:
        meta["labels"] = {"hidden": labels["hidden"]}


def compile_document(document: Mapping[str, Json]) -> Compiled:
    """Read the JSON of a flow."""
    from ..codec import flow_from_json

    fields = {key: value for key, value in document.items() if key not in ("kind", "id")}
    flow = flow_from_json({key: value for key, value in fields.items() if key != "concurrency"})
    if any(isinstance(node.op, Program) for node in nodes_of(flow.body)):
        raise InvalidFlow([Problem(path="regions", message="a program is not a node of a flow; write it as a plan")])
    width = fields.get("concurrency")
    if width is not None:
        if flow.body.ordered or type(width) is not int or width < 1:
            reason = "its nodes run one after another" if flow.body.ordered else "must be an integer of 1 or more"
            raise InvalidFlow(
                [Problem(path="concurrency", message=f"cannot be set: {reason}" if flow.body.ordered else reason)]
            )
        flow = replace(flow, body=replace(flow.body, limit=width))
    return compiled_flow(flow, fields)


def compiled_flow(flow: Flow, document: Mapping[str, Json]) -> Compiled:
    """Wrap a flow as the result of compiling its document."""
    return Compiled(
        kind="flow",
        id=flow.name,
        name=flow.name,
        document={key: value for key, value in document.items() if key != "kind"},
        flow=flow,
        warnings=(),
        render=_render,
    )


def _render(ending: Any) -> dict[str, Json]:
    """Write an ending of the engine as a result: the value of the flow, its state, its failures."""
    return {
        "success": ending.status == "completed",
        "executionId": ending.run_id,
        "status": ending.status,
        "result": ending.value,
        "state": ending.state,
        "errors": failures(ending),
        "duration": round(ending.duration * 1000, 3),
    }
