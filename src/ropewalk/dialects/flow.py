"""Flows themselves as a notation: the codec's JSON, which holds whatever the graph can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import InvalidFlow, Problem
from ..ir import Flow
from ..values import Json
from .notation import Compiled, failures


def fits(document: Mapping[str, Json]) -> bool:
    return "ropewalk" in document


def write(flow: Flow, losses: list[Problem] | None = None) -> dict[str, Json]:
    from ..codec import flow_to_json  # other notations do without
    from .writing import only_in_a_directory

    refused = list(only_in_a_directory(flow.body))
    if losses is not None:
        losses += refused
    elif refused:
        raise InvalidFlow(refused)
    return {"kind": "flow", **flow_to_json(flow)}


def compile_document(document: Mapping[str, Json]) -> Compiled:
    """Read the JSON of a flow; raises InvalidFlow at the first place that is none. `concurrency` is laid
    over the limit that its nodes have."""
    from ..codec import flow_from_json

    doc = {key: value for key, value in document.items() if key not in ("kind", "id")}
    flow = flow_from_json({key: value for key, value in doc.items() if key != "concurrency"})
    width = doc.get("concurrency")
    if width is not None:
        if flow.body.ordered or type(width) is not int or width < 1:
            said = "its nodes run one after another" if flow.body.ordered else "must be a whole number of 1 or more"
            raise InvalidFlow([Problem(path="concurrency", message=f"how many nodes run at once: {said}")])
        flow = replace(flow, body=replace(flow.body, limit=width))
    return compiled_flow(flow, doc)


def compiled_flow(flow: Flow, document: Mapping[str, Json]) -> Compiled:
    """The same for a flow that is one already."""
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
    """An ending in the words of the graph: the value of the flow, its state, what failed."""
    return {
        "success": ending.status == "completed",
        "executionId": ending.run_id,
        "status": ending.status,
        "result": ending.value,
        "state": ending.state,
        "errors": failures(ending),
        "duration": round(ending.duration * 1000, 3),
    }
