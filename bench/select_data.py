"""Sets of tools and queries in folders, and what is measured of a ranking of them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEASURES = ("hit@1", "recall@1", "recall@3", "recall@5", "recall@10", "all@5", "MRR", "nDCG@10")


@dataclass(frozen=True)
class Set:
    """A folder with tools.jsonl {name, description, category?, inputSchema?} and queries.jsonl {query, gold, alts?,
    cands?}."""

    name: str
    tools: list[dict[str, Any]]
    queries: list[dict[str, Any]]


def load(folder: Path | str) -> Set:
    """Read a folder; what is wrong with it ends the program, with its place."""
    folder = Path(folder)
    tools, queries = _lines(folder / "tools.jsonl", "name"), _lines(folder / "queries.jsonl", "query", "gold")
    names = {f"{tool['namespace']}:{tool['name']}" if tool.get("namespace") else tool["name"] for tool in tools}
    for number, query in enumerate(queries, 1):
        strangers = [name for name in query["gold"] if name not in names]
        if strangers:
            raise SystemExit(
                f"{folder}/queries.jsonl, query {number}: no tool is called {strangers[0]!r} (with its namespace)"
            )
    return Set(folder.name, tools, queries)


def in_other_languages(one: Set) -> list[Set]:
    """The tools of a set with their requests in select_languages.jsonl: those seen while developing, and the others."""
    rows = _lines(Path(__file__).with_name("select_languages.jsonl"), "query", "gold", "set", "part")
    parts: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["set"] == one.name:
            parts.setdefault(row["part"], []).append(row)
    return [Set(f"{one.name}, other languages, {part}", one.tools, queries) for part, queries in parts.items()]


def _lines(path: Path, *keys: str) -> list[dict[str, Any]]:
    if not path.is_file():
        raise SystemExit(f"there is no {path}; a folder has tools.jsonl and queries.jsonl")
    found = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        try:
            row = json.loads(line) if line.strip() else None
        except json.JSONDecodeError as error:
            raise SystemExit(f"{path}:{number}: {error}") from error
        if row is not None:
            missing = [key for key in keys if not isinstance(row, dict) or key not in row]
            if missing or not isinstance(row.get("gold", []), list):
                raise SystemExit(f"{path}:{number}: needs {' and '.join(keys)}; gold is a list of names")
            found.append(row)
    if not found:
        raise SystemExit(f"{path}: there is nothing in it")
    return found


def right(query: dict[str, Any]) -> list[set[str]]:
    """What a ranking should have: of each gold tool, the names that count as it."""
    others = query.get("alts") or {}
    return [{gold, *others.get(gold, [])} for gold in query["gold"]]


def measure(ranked: Sequence[str], query: dict[str, Any]) -> list[float]:
    """MEASURES of one ranking."""
    wanted = right(query)
    first = [min((n for n, name in enumerate(ranked, 1) if name in names), default=0) for names in wanted]
    found = sorted(place for place in first if place)

    def recall(most: int) -> float:
        return sum(place <= most for place in found) / len(wanted)

    gain = sum(1 / math.log2(place + 1) for place in dict.fromkeys(found) if place <= 10)
    ideal = sum(1 / math.log2(place + 1) for place in range(1, min(len(wanted), 10) + 1))
    hit = float(bool(found) and found[0] == 1)
    return [
        hit, recall(1), recall(3), recall(5), recall(10), float(recall(5) == 1), 1 / found[0] if found else 0.0,
        gain / ideal,
    ]  # fmt: skip


def mean(rows: Sequence[Sequence[float]]) -> list[float]:
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)] if rows else [0.0] * len(MEASURES)
