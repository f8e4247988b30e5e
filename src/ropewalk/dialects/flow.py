"""Flows themselves as a notation: the codec's JSON, which holds whatever the graph can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ir import Flow
from ..values import Json
from .notation import Compiled, failures


def fits(document: Mapping[str, Json]) -> bool:
    return "ropewalk" in document


def write(flow: Flow) -> dict[str, Json]:
    from ..codec import flow_to_json  # other notations do without

    return {"kind": "flow", **flow_to_json(flow)}


def compile_document(document: Mapping[str, Json]) -> Compiled:
    """Read the JSON of a flow; raises InvalidFlow at the first place that is none."""
    from ..codec import flow_from_json

    doc = {key: value for key, value in document.items() if key not in ("kind", "id")}
    return compiled_flow(flow_from_json(doc), doc)


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
