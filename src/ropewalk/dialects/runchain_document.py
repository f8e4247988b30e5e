"""Run chains as documents: tool calls one after another, as `Runner.run_chain` makes them.

A step names a tool and its arguments, which are data: nothing in them is read as a reference. With `usePrevious` the
result of the step before is the argument `previous`. The value is the result of the last step; without steps it is
null. Use a chain where a step needs more than the result before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ..errors import InvalidFlow
from ..values import Json
from . import fields as f
from .fields import Checker, Report, join, known_keys, say
from .nodes import read_document
from .notation import Compiled, failures, told_together
from .runchain import flow_of

FIELDS: Final[dict[str, Checker]] = {
    "id": f.name,
    "kind": f.text,
    "name": f.name,
    "description": f.text,
    "inputSchema": f.mapping,
    "timeout": f.number,
    "steps": f.anything,
}
STEP_FIELDS: Final[dict[str, Checker]] = {"toolId": f.name, "args": f.mapping, "usePrevious": f.truth}


class Step(NamedTuple):
    """One call of a run chain."""

    tool_id: str
    args: dict[str, Json]
    use_previous: bool


def fits(document: Mapping[str, Json]) -> bool:
    """Return False: steps alone may be those of a composite, so a run chain says its kind."""
    return False


def compile_document(config: Mapping[str, Json]) -> Compiled:
    """Read and compile a run chain; raise InvalidFlow with every problem of the document."""
    given, report = read_document(config, FIELDS, "run chain", ("inputSchema",))
    steps = _steps(given.get("steps"), report)
    name = str(given.get("name", "run_chain"))
    timeout: Any = given.get("timeout")
    flow = replace(
        flow_of([Step(step["toolId"], step.get("args") or {}, bool(step.get("usePrevious"))) for step in steps]),
        name=name,
        input_schema=given.get("inputSchema"),
        timeout=timeout / 1000 if timeout else None,
    )
    if report:
        raise InvalidFlow(told_together(report, flow), flow)
    return Compiled(
        kind="runchain",
        id=str(given.get("id", name)),
        name=name,
        document={**given, "steps": steps},
        flow=flow,
        warnings=(),
        render=_render,
    )


def _steps(listed: Json, report: Report) -> list[Any]:
    if not isinstance(listed, list):
        say(report, "steps", f"must be a list of steps, not {f.kind(listed)}")
        return []
    found = []
    for i, step in enumerate(listed):
        path = f"steps[{i}]"
        if not isinstance(step, Mapping):
            say(report, path, f"must be an object with toolId, args and usePrevious, not {f.kind(step)}")
            continue
        given = known_keys(step, STEP_FIELDS, path, report).items()
        read = {key: STEP_FIELDS[key](value, join(path, key), report) for key, value in given if value is not None}
        if "toolId" not in read:
            say(report, join(path, "toolId"), "required: the id of the tool")
        found.append({"toolId": "", **read})
    return found


def _render(ending: Any) -> dict[str, Json]:
    """Return an ending in the words of a run chain: `result` is that of the last step."""
    return {
        "success": ending.status == "completed",
        "executionId": ending.run_id,
        "status": ending.status,
        "result": ending.value,
        "errors": failures(ending),
        "duration": round(ending.duration * 1000, 3),
    }
