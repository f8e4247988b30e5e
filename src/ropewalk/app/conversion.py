"""Translate a definition to another notation, and say where its document holds what the other one cannot."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..check import ToolCard
from ..errors import InvalidFlow, Problem
from ..expr.ast import Obj, Ref
from ..ir import Flow, Graph
from ..notations.registry import write

if TYPE_CHECKING:
    from ..values import Json
    from .definitions import Definitions
    from .prepared import Prepared


def converted(loaded: Prepared, kind: str, definitions: Definitions, allow_loss: bool = False) -> Any:
    """Return the definition in another notation."""
    from ..notations.writing import ConvertedDocument  # other work does without the writers

    if loaded.kind == kind:
        own = {"kind": kind, **loaded.document}
        return ConvertedDocument(own) if allow_loss else own
    cards: Callable[[str], ToolCard | None] = definitions.cards
    losses: list[Problem] = []
    document = write(_with_value(loaded), kind, losses, lambda tool: getattr(cards(tool), "output_schema", None))
    result = tuple(_at_nodes(losses, loaded))
    if not allow_loss:
        if result:
            raise InvalidFlow(result)
        return document
    if result and "outputSchema" in document and not _fits_its_schema(document, definitions):
        document = {key: value for key, value in document.items() if key != "outputSchema"}
        why = "the value that is left does not fit it, because of the other losses"
        result = (*result, Problem(path="outputSchema", message=why))
    created = ConvertedDocument(document)
    created.losses = result
    return created


def _fits_its_schema(document: dict[str, Json], definitions: Definitions) -> bool:
    """Return False if the check finds that the value of a document does not fit its `outputSchema`."""
    try:
        problems = definitions.check(definitions.get(document)).problems
    except InvalidFlow as error:
        problems = error.problems
    return not any(problem.path.startswith("outputSchema") for problem in problems)


def _with_value(loaded: Prepared) -> Flow:
    """Return the flow, whose result is the value of its notation: that of an experience is its final state."""
    flow = loaded.flow
    if loaded.compiled.value_from != "state":
        return flow
    state = Obj(tuple((name, Ref("state", (name,))) for name in flow.state))
    return replace(flow, body=replace(flow.body, result=state))


def _at_nodes(problems: Iterable[Problem], loaded: Prepared) -> list[Problem]:
    """Move the losses that a writer reports to the places of their nodes in the file."""
    from .node_places import node_sources  # only a loss needs it

    sources = dict(node_sources(loaded.flow.body, ""))
    hidden = _hidden_fields(loaded.flow.body)
    result = []
    for problem in problems:
        way = problem.path
        while way and way not in sources:
            way = way.rpartition(".")[0]
        reported = problem if loaded.kind == "flow" else _unwrapped(problem, hidden)
        there = loaded.file is not None and (way in sources or reported.path in loaded.file.data)
        at = loaded.file.locate(sources.get(way) or reported.path, reported.column) if there else None
        result.append(reported if at is None else replace(reported, place=at))
    return result


def _hidden_fields(body: Graph) -> dict[str, str]:
    """Return the fields that hidden nodes stand for ("mode" of the label "mode: loop"), by id."""
    labels = ((node.id, node.meta.labels.get("hidden", "")) for node in body.nodes if node.meta.hidden)
    return {id: label.partition(":")[0] for id, label in labels if label}


def _unwrapped(problem: Problem, hidden: Mapping[str, str]) -> Problem:
    """Name the field that a hidden node stands for in place of the node, and what is inside it without it."""
    id = re.split(r"[./]", problem.path, maxsplit=1)[0]
    field = hidden.get(id)
    if field is None:
        return problem
    path = problem.path[len(id) + 1 :] or field
    return replace(problem, path=path, message=problem.message.removeprefix(f"{field}: "))
