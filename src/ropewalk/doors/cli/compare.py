"""`runs diff`: two runs side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from ...source import visible
from .answer import Answer
from .interrupts import Interrupts
from .options import Json, Project, StoreAddress
from .session import unknown_run, with_app
from .table import duration

if TYPE_CHECKING:
    from ...app import App

_MARKS = {"added": "+", "removed": "-", "changed": "~"}


def diff(a: str, b: str, /, *, json: Json = False, store: StoreAddress = None, project: Project = None) -> Answer:
    """Show what differs between two runs: definition, input, every node that came out otherwise, result."""

    async def work(app: App, _: Interrupts) -> Answer:
        for one in (a, b):
            if app.runs.row(one) is None:
                raise unknown_run(app, one)
        told = app.runs.diff(a, b)
        return Answer(data=told, text=visible("\n".join(_lines(told))))

    return with_app(work, project=project, store=store, tools=False)


def _lines(told: dict[str, Any]) -> list[str]:
    lines = [f"{side}  {told[side]['id']}  {told[side]['status']}  {_time(told[side]['ms'])}" for side in "ab"]
    lines += [
        f"definition: {one['path'] or 'settings'} {one['what']}"
        + (f" in {', '.join(one['fields'])}" if one["fields"] else "")
        for one in told["definition"]
    ]
    lines += _values(told["input"], "input")
    for node in told["nodes"]:
        if node["what"] != "changed":
            lines.append(f"{_MARKS[node['what']]} {node['path']}  {node['status']}  {_time(node['ms'])}")
            continue
        one, other = node["status"]
        status = one if one == other else f"{one} -> {other}"
        lines.append(f"~ {node['path']}  {status}  {_time(node['ms'][0])} -> {_time(node['ms'][1])}")
        lines += [f"    {line}" for line in _values(node["value"], "value")]
        if node["error"]:
            lines.append(f"    error: {node['error'][0] or '(none)'} -> {node['error'][1] or '(none)'}")
    if told["nodesLeftOff"]:
        lines.append(f"... and {told['nodesLeftOff']} more nodes")
    lines += _values(told["result"], "result")
    if told["error"]:
        lines.append(f"error: {told['error'][0] or '(none)'} -> {told['error'][1] or '(none)'}")
    lines.append(f"{told['same']} node{'' if told['same'] == 1 else 's'} the same")
    return lines


def _values(found: list[dict[str, Any]], name: str) -> list[str]:
    lines = []
    for one in found:
        if "more" in one:
            lines.append(f"{name}: and {one['more']} more differences")
            continue
        path = one["path"]
        where = name + (path if path.startswith("[") or not path else f".{path}")
        lines.append(f"{where}: {_said(one, 'a')} -> {_said(one, 'b')}")
    return lines


def _said(one: dict[str, Any], side: str) -> str:
    return orjson.dumps(one[side]).decode() if side in one else "(not there)"


def _time(ms: float | None) -> str:
    return "-" if ms is None else duration(ms / 1000)
