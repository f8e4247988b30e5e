"""A definition written in another notation, and what that leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from .definitions import Loaded, node_sources
from .dialects import write
from .errors import InvalidFlow, Problem
from .expr.ast import Obj, Ref
from .ir import Flow, Graph
from .values import Json


class Converted(dict[str, Json]):
    """A document that was converted to another notation. `losses` are the parts of the definition that it leaves out
    or does differently: each a `Problem` with its place. `dict(it)` is the plain document, for `yaml.safe_dump`."""

    losses: tuple[Problem, ...] = ()


def converted(loaded: Loaded, kind: str, allow_loss: bool = False) -> Any:
    """Return the definition in another notation.

    Args:
        loaded: The definition.
        kind: The notation.
        allow_loss: Convert what the notation can hold, and list the rest in `losses`.

    Returns:
        The document, a plain dict; with `allow_loss` a Converted. Without losses it makes the same calls and gives
        the same value.

    Raises:
        InvalidFlow: With everything that the notation cannot hold, each at its place, unless `allow_loss` is set.
        NotFound: Where there is no such notation.
    """
    if loaded.kind == kind:
        own = {"kind": kind, **loaded.document}
        return Converted(own) if allow_loss else own
    losses: list[Problem] = []
    document = write(_with_value(loaded), kind, losses)
    found = tuple(_at_nodes(losses, loaded))
    if not allow_loss:
        if found:
            raise InvalidFlow(found)
        return document
    made = Converted(document)
    made.losses = found
    return made


def _with_value(loaded: Loaded) -> Flow:
    """Return the flow, whose result is the value of its notation: that of an experience is its final state."""
    flow = loaded.flow
    if loaded.compiled.value_from != "state":
        return flow
    state = Obj(tuple((name, Ref("state", (name,))) for name in flow.state))
    return replace(flow, body=replace(flow.body, result=state))


def _at_nodes(problems: Iterable[Problem], loaded: Loaded) -> list[Problem]:
    """What a writer says of nodes, by their ids, each at the place of its node in the file."""
    sources = dict(node_sources(loaded.flow.body, ""))
    found = []
    for problem in problems:
        way = problem.path
        while way and way not in sources:
            way = way.rpartition(".")[0]
        told = problem if loaded.kind == "flow" else _unwrapped(problem, loaded.flow.body)
        there = loaded.file is not None and (way in sources or told.path in loaded.file.data)
        at = loaded.file.locate(sources.get(way) or told.path) if there else None
        found.append(told if at is None else replace(told, place=at))
    return found


def _unwrapped(problem: Problem, body: Graph) -> Problem:
    """What is told of a hidden node, told of the field that it stands for; of what is in it, without it."""
    for node in body.nodes:
        label = node.meta.labels.get("hidden", "") if node.meta.hidden else ""
        if label and re.match(re.escape(node.id) + r"(?:[./]|$)", problem.path):
            field = label.partition(":")[0]  # of "mode: loop"
            path = problem.path[len(node.id) + 1 :] or field
            return replace(problem, path=path, message=problem.message.removeprefix(f"{field}: "))
    return problem
