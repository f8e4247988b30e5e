"""Searches of models: several queries, whose results are merged fairly and come in two densities.

A model that searches for tools words the queries itself, so its tool tells it how. It reads an answer again at every
later turn, so only the best results come with full definitions; each of the others is one line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import orjson

from ..errors import InvalidInput, Problem
from ..values import Json, check_json
from .options import THRESHOLD

MAX_QUERIES: Final = 10
MAX_LIMIT: Final = 50
USUAL_LIMIT: Final = 8
NEAR: Final = 0.1
"""The least score of a result for a model, lower than usual: near misses are better for it than nothing."""
HOW_TO_ASK: Final = (
    'Word each query as an operation and an object, in English: "create issue", "list open pull requests". '
    "Send one query per task, all in one call."
)
QUERIES: Final[dict[str, Json]] = {
    "type": "array",
    "items": {"type": "string", "minLength": 1},
    "minItems": 1,
    "maxItems": MAX_QUERIES,
    "description": 'One query per task: ["create issue", "list branches"].',
}
LIMIT: Final[dict[str, Json]] = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": USUAL_LIMIT}
_FULL: Final = 3  # results with full definitions; with more queries, the best of each
_FULL_SIZE: Final = 2_000  # characters of each full definition, on average; the first one may have any size
_LONGEST: Final = 120  # characters of a description in one line
_SENTENCE: Final = re.compile(r".+?[.!?](?=\s+[^\sa-z]|$)")
_Definition = TypeVar("_Definition", str, dict[str, Any])


class Described(Protocol):
    """A tool as far as one line says it."""

    @property
    def description(self) -> str:
        """The description of the tool."""
        ...

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments."""
        ...


class Found(NamedTuple):
    """A result: the key of a tool, its best score, and the query with this score."""

    key: str
    score: float
    query: str


class Results(NamedTuple):
    """The merged results of a search."""

    found: list[Found]
    # The keys that each query found, the best first.
    by_query: dict[str, list[str]]
    # The queries that no tool fits.
    weak: list[str]

    def renamed(self, names: Mapping[str, str]) -> Results:
        """Return the same results with the names of the tools as keys."""
        found = [result._replace(key=names[result.key]) for result in self.found]
        by_query = {query: [names[key] for key in keys] for query, keys in self.by_query.items()}
        return Results(found, by_query, self.weak)

    @property
    def remarks(self) -> dict[str, Json]:
        """The fields of an answer next to its tools: the names that each query found, and a note if no tool fits."""
        remarks: dict[str, Json] = {}
        if len(self.by_query) > 1:
            remarks["queries"] = {query: list[Json](keys) for query, keys in self.by_query.items()}
        if self.weak:
            what = ", ".join(f'"{query}"' for query in self.weak) if "queries" in remarks else "this request"
            near = "; the nearest tools are listed, and probably do not fit" if self.found else ""
            remarks["note"] = (
                f"no tool here fits {what} (none has a score of {THRESHOLD:g} or more){near}; "
                "try other words: an operation and an object, in English"
            )
        return remarks

    def in_two_densities(
        self, define: Callable[[Found], _Definition], line: Callable[[Found], str]
    ) -> tuple[list[_Definition], list[str]]:
        """Return the full definitions of the best results, and the other results as lines."""
        full: list[_Definition] = []
        lines: list[str] = []
        most = max(_FULL, len(self.by_query))
        room = _FULL_SIZE * most
        for place, found in enumerate(self.found):
            definition = define(found) if place < most else None
            size = 0 if definition is None else len(orjson.dumps(definition))
            if definition is not None and (not full or size <= room):
                full.append(definition)
                room -= size
            else:
                lines.append(line(found))
        return full, lines


class Search(NamedTuple):
    """The queries of a model, and the largest number of results."""

    queries: list[str]
    limit: int

    def run(self, rank: Callable[[str, int], Sequence[tuple[str, float]]]) -> Results:
        """Rank tools for each query, and merge: the best of each query in turns, then the second ones, and so on."""
        ranked = {query: rank(query, self.limit) for query in self.queries}
        best: dict[str, Found] = {}
        for place in range(self.limit):
            for query, rows in ranked.items():
                if place < len(rows) and (rows[place][0] in best or len(best) < self.limit):
                    key, score = rows[place]
                    if key not in best or score > best[key].score:
                        best[key] = Found(key, score, query)
        by_query = {query: [key for key, _ in rows if key in best] for query, rows in ranked.items()}
        weak = [query for query, rows in ranked.items() if not any(score >= THRESHOLD for _, score in rows)]
        return Results(list(best.values()), by_query, weak)


def read_search(query: Any, queries: Any, limit: Any, *, name: str = "query") -> Search:
    """Read the arguments of a search: one query, several, or both; `name` is the argument of the one."""
    problems: list[Problem] = []
    texts: list[Any] = [] if query is None else [query]
    if isinstance(queries, (list, tuple)) and 0 < len(queries) <= MAX_QUERIES:
        texts += queries
    elif queries is not None or query is None:
        problems.append(Problem(path="queries", message=f"must list 1 to {MAX_QUERIES} tasks in words"))
    for text in texts:
        if not isinstance(text, str) or not text.strip():
            path = name if text is query else "queries"
            problems.append(Problem(path=path, message="must describe the task in words"))
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_LIMIT:
        problems.append(Problem(path="limit", message=f"must be a whole number from 1 to {MAX_LIMIT}"))
    if problems:
        raise InvalidInput(problems)
    # The best result of each query is always in the answer.
    wanted = list(dict.fromkeys(str(check_json(text, name)) for text in texts))
    return Search(wanted, max(limit, len(wanted)))


def first_exact(query: str, names: Mapping[str, str], rows: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return rows of keys and scores with the tool first whose name is the query."""
    key = names.get(query.strip())
    return [*([(key, 1.0)] if key is not None else []), *(row for row in rows if row[0] != key)]


def line_of(name: str, tool: Described) -> str:
    """Return a tool in one line: `name(required parameters): first sentence of its description`."""
    required = tool.input_schema.get("required")
    parameters = ", ".join(map(str, required)) if isinstance(required, list) else ""
    sentence = first_sentence(tool.description)
    return f"{name}({parameters})" + (f": {sentence}" if sentence else "")


def first_sentence(text: str) -> str:
    """Return the first sentence of a description on one line, shortened if it is long."""
    paragraph = " ".join(text.strip().partition("\n\n")[0].split())
    match = _SENTENCE.match(paragraph)
    sentence = paragraph if match is None else match[0]
    return sentence if len(sentence) <= _LONGEST else f"{sentence[: _LONGEST - 1].rstrip()}…"
