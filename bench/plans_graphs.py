"""Task graphs of WorfBench as programs: each task is a call that begins when those that it needs have ended.

WorfBench: https://github.com/zjunlp/WorfBench. `folder` is a checkout. A graph becomes tasks of `asyncio` that await
each other. Every call must be made once, with the results of the calls that it needs, as in a plain walk through the
graph.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple

from ropewalk import App, tool

_NODE = re.compile(r"^(\d+): ?(.*)$", re.MULTILINE)
_EDGE = re.compile(r"\((\w+), ?(\w+)\)")
HEAD = """
async def after(number, text, *tasks):
    needs = [await task for task in tasks]
    return await do(number=number, text=text, needs=needs)
"""


class Graph(NamedTuple):
    """The texts of tasks by their numbers, and the numbers of the tasks that each one needs."""

    id: str
    texts: dict[int, str]
    needs: dict[int, list[int]]

    @property
    def order(self) -> list[int] | None:
        """The tasks, each behind those that it needs; None for a graph with a cycle or with unknown tasks."""
        named = set(self.needs).union(*self.needs.values())
        if not self.texts or not named.issubset(self.texts):
            return None
        try:
            return list(TopologicalSorter({n: self.needs.get(n, []) for n in self.texts}).static_order())
        except CycleError:
            return None


def graphs(folder: Path) -> Iterator[Graph]:
    """Read the graphs of all parts."""
    for file in sorted(folder.glob("gold_traj/*/graph_eval.json")):
        for sample in json.loads(file.read_text(encoding="utf-8")):
            said = sample["conversations"]
            text = (ast.literal_eval(said) if isinstance(said, str) else said)[-1]["content"]
            nodes, _, edges = text.partition("Edge")
            needs: dict[int, list[int]] = {}
            for first, second in _EDGE.findall(edges):
                if first.isdecimal() and second.isdecimal():
                    needs.setdefault(int(second), []).append(int(first))
            yield Graph(sample["id"], {int(number): words for number, words in _NODE.findall(nodes)}, needs)


def program_of(graph: Graph, order: list[int]) -> str:
    """Return a program with a task for each task of the graph."""
    lines = []
    for n in order:
        words = [str(n), repr(graph.texts[n]), *(f"t{m}" for m in graph.needs.get(n, ()))]
        lines.append(f"t{n} = asyncio.create_task(after({', '.join(words)}))")
    return "import asyncio\n" + HEAD + "\n".join([*lines, f"return [{', '.join(f'await t{n}' for n in order)}]"])


async def compare(folder: Path) -> bool:
    """Run every graph; print the counts, and what is refused or different."""
    calls: list[dict[str, Any]] = []

    @tool
    async def do(number: int, text: str, needs: list[Any]) -> dict[str, Any]:
        """Do a task."""
        calls.append({"number": number, "text": text, "needs": needs})
        return {"number": number, "needs": [need["number"] for need in needs]}

    total = unsound = same = made = 0
    async with App("memory", tools=[do]) as app:
        for graph in graphs(folder):
            total, order = total + 1, graph.order
            if order is None:
                unsound += 1
                continue
            calls.clear()
            answer = await app.plans.run_plan(program_of(graph, order))
            results = {n: {"number": n, "needs": graph.needs.get(n, [])} for n in order}
            wanted = {n: [results[m] for m in graph.needs.get(n, [])] for n in order}
            given = {call["number"]: call["needs"] for call in calls if call["text"] == graph.texts[call["number"]]}
            made += len(calls)
            if answer.get("result") == list(results.values()) and given == wanted and len(calls) == len(order):
                same += 1
            else:
                print(f"different: {graph.id}: {json.dumps(answer)[:300]}")
    print(f"worf: {total} graphs, {unsound} unsound, {total - unsound} sound, {same} identical, {made} calls")
    return same == total - unsound
