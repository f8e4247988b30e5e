"""Services of a child: it answers questions of its parent about programs of models, and plays them.

A service is a function of a message and the link to the parent. `notations/plan/readers.py` is the parent's half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from ...check import ToolCard
from ...errors import InvalidFlow, Problem
from ...outline import to_json
from ...plans import play
from ...plans.boundary.child import Link, Service
from ...plans.read.tools import names_in, values_in
from ...values import Json
from .check import types_of
from .render import compile_document

FIELDS: Final = ("path", "message", "suggestion", "column")
"""The fields of a problem that pass the boundary."""


def problems_to_json(problems: Sequence[Problem]) -> list[Json]:
    """Return problems as JSON."""
    return [{name: getattr(problem, name) for name in FIELDS} for problem in problems]


def names(message: dict[str, Any], link: Link) -> Json:
    """Return the names in a program that can mean tools, and the places of recorded values that it reads."""
    code = str(message["code"])
    return {"names": sorted(names_in(code)), "values": sorted(values_in(code))}


def compile_plan(message: dict[str, Any], link: Link) -> Json:
    """Return the schema of the input of a plan document and the outline of its program, or its problems."""
    try:
        flow = compile_document(message["document"]).flow
    except InvalidFlow as error:
        return {"problems": problems_to_json(error.problems)}
    op: Any = flow.body.nodes[-1].op
    return {"input": flow.input_schema, "outline": to_json(op.outline)}


def types(message: dict[str, Any], link: Link) -> Json:
    """Return what can never fit in a program, what is probably wrong, and the schema of its result."""
    cards: dict[str, ToolCard | None] = {}

    def card(tool: str) -> ToolCard | None:
        if tool not in cards:
            link.send({"type": "schemas", "tool": tool})
            found = link.receive().get("schemas")
            cards[tool] = None if found is None else ToolCard(found["input"], found["output"])
        return cards[tool]

    found = types_of(message["document"], card)
    return [problems_to_json(found.problems), problems_to_json(found.warnings), found.output]


def _echo(message: dict[str, Any], link: Link) -> Json:
    """Return what the message holds: the cheapest program."""
    return message.get("value")


SERVICES: Final[Mapping[str, Service]] = {
    "echo": _echo,
    "names": names,
    "compile": compile_plan,
    "types": types,
    "play": play.play,
}


def warm_up() -> None:
    """Use everything once: a child can open no file, so whatever is imported late must be here before."""
    play.warm_up()
    code = (
        "from datetime import datetime\nimport asyncio, statistics, textwrap, calendar, re, json\n"
        "x: int\nrows = [r async for r in []] if x is None else [{'a': x}]\n"
    )
    for text in (code, _PROGRAM):
        message = {"document": {"kind": "plan", "name": "warm", "code": text, "tools": _TOOLS}}
        names({"code": text}, Link(None))  # type: ignore[arg-type]
        compile_plan(message, Link(None))  # type: ignore[arg-type]
    types_of(message["document"], lambda tool: _CARD)
    for module in _LATE_MODULES:
        import_module(module)
    for encoding in _ENCODINGS:
        "".encode(encoding)


_ENCODINGS: Final = ("ascii", "latin-1", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "unicode_escape")
_LATE_MODULES: Final = (
    *("_strptime", "calendar", "csv", "decimal", "difflib", "email.utils", "fractions", "html", "jsonschema_rs"),
    *("locale", "numbers", "pprint", "unicodedata", "zoneinfo"),
)
"""Modules that functions of the compiler and of Python import when they are called."""
_CARD: Final = ToolCard({"type": "object", "properties": {"q": {"type": "string"}}}, {"type": "array"})
_TOOLS: Final[dict[str, Json]] = {"search": {"id": "s:search", "parameters": ["q"], "approve": True}}
_PROGRAM: Final = """
import asyncio
from collections import Counter
total: int
counts = Counter()
async def one(name):
    try:
        return await search(q=name)
    except (ToolError, ValueError) as error:
        return str(error)
results = await asyncio.gather(*[one(name) for name in ["a", "b"]])
for number in range(3):
    if number > total:
        break
    counts[str(number)] += 1
    found = await search(q=f"{number:>3}")
while total < 3:
    total += 1
    match total:
        case [a, *b]:
            x = await search(q="x")
        case _:
            print(total)
return {"found": sorted(counts.items()), "text": re.sub("a", "b", "abc"), "mean": statistics.mean([1, 2])}
"""
