"""Measure what learning does to every tool: python bench/select_learning.py FOLDER... (see select_data.py).

Half of the tools are used, the other half never. The learning curve asks unseen requests for both halves after 0, 1,
2, 4, 8, 16 and 40 remembered requests for each used tool. Three more cases are known to do harm: forty routine
requests for every tool (one request with a changing detail), the same after eight different requests, and a stranger
(a tool that is recorded for sixteen requests of sixteen other tools).

A last case is a flood: three sources teach every tool eight of its own requests; then a fourth teaches half of the
tools forty requests of the other half. It is measured with sources known, and with none known.

Requests for several tools are left out. Of each tool a part of the requests is asked and never taught.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ropewalk.journal.tool_usage import use_source
from ropewalk.select.selector import Selector
from select_data import Set, load, mean, measure

CURVE = (0, 1, 2, 4, 8, 16, 40)
ROUTINE = 40
STRANGER = 16
FLOOD = 40
UNSEEN_OF_EACH = 8
ROUTINES = (
    "{request} for number {n}", "number {n}: {request}", "{request} on day {n} please", "again {request} ({n})",
)  # fmt: skip

Lesson = tuple[str, str]  # request, tool


@dataclass(frozen=True)
class Split:
    """The requests of one set: those to teach, by tool, and those to ask."""

    teach: dict[str, list[str]]
    ask: dict[str, list[str]]


def split_requests(one: Set, seed: int) -> Split:
    """Divide the requests of every tool: a third to ask (at most UNSEEN_OF_EACH), the rest to teach."""
    chance = random.Random(seed)
    by_tool: dict[str, list[str]] = defaultdict(list)
    for query in one.queries:
        if len(query["gold"]) == 1:
            by_tool[query["gold"][0]].append(query["query"])
    teach, ask = {}, {}
    for tool in sorted(by_tool):
        requests = chance.sample(by_tool[tool], len(by_tool[tool]))
        unseen = min(UNSEEN_OF_EACH, len(requests) // 3)
        if unseen:
            ask[tool], teach[tool] = requests[:unseen], requests[unseen:]
    return Split(teach, ask)


def figures(selector: Selector, ask: dict[str, list[str]]) -> tuple[float, float]:
    """Return hit@1 and recall@5 of the requests of these tools."""
    rows = []
    for tool, requests in ask.items():
        for request in requests:
            results = selector.select(request, threshold=0).results
            rows.append(measure([result["name"] for result in results], {"gold": [tool]}))
    got = mean(rows)
    return got[0], got[3]


def teach(selector: Selector, lessons: Iterable[Lesson]) -> None:
    for request, tool in lessons:
        selector.record(request, tool, True)


def interleaved(requests: dict[str, list[str]], each: int) -> Iterator[Lesson]:
    """Give `each` requests of every tool, in turns, as use would."""
    for turn in range(each):
        for tool, own in requests.items():
            if turn < len(own):
                yield own[turn], tool


def routine(requests: dict[str, list[str]], times: int = ROUTINE) -> Iterator[Lesson]:
    """Give one request of every tool again and again, with another number in it each time."""
    for turn in range(times):
        for tool, own in requests.items():
            yield ROUTINES[turn % len(ROUTINES)].format(request=own[0], n=100 + 7 * turn), tool


def halves(tools: Sequence[str], seed: int) -> tuple[set[str], set[str]]:
    used = set(random.Random(seed).sample(sorted(tools), len(tools) // 2))
    return used, set(tools) - used


def only(requests: dict[str, list[str]], tools: set[str]) -> dict[str, list[str]]:
    return {tool: own for tool, own in requests.items() if tool in tools}


def curve(one: Set, parts: Split, seed: int, levels: Sequence[int]) -> list[dict[str, Any]]:
    """Measure both halves after every number of remembered requests for each used tool."""
    used, unused = halves(list(parts.teach), seed)
    rows = []
    for each in levels:
        selector = Selector(one.tools)
        lessons = list(interleaved(only(parts.teach, used), each))
        teach(selector, lessons)
        rows.append(
            {
                "remembered": each,
                "taught": len(lessons),
                "used": figures(selector, only(parts.ask, used)),
                "unused": figures(selector, only(parts.ask, unused)),
            }
        )
    return rows


def routine_case(one: Set, parts: Split) -> dict[str, tuple[float, float]]:
    """Measure all tools with nothing remembered, after routine requests, and after different ones with routine."""
    found = {}
    for name, different, times in (
        ("nothing remembered", 0, 0), ("8 different", 8, 0), ("40 routine", 0, ROUTINE),
        ("8 different, then 40 routine", 8, ROUTINE),
    ):  # fmt: skip
        selector = Selector(one.tools)
        teach(selector, interleaved(parts.teach, different))
        teach(selector, routine(parts.teach, times))
        found[name] = figures(selector, parts.ask)
    return found


def stranger_case(one: Set, parts: Split, seed: int) -> dict[str, Any]:
    """Record one tool for a request of each of sixteen others, and count where it comes among the first five."""
    chance = random.Random(seed)
    tools = chance.sample(sorted(parts.teach), STRANGER + 1)
    stranger, victims = tools[0], set(tools[1:])
    asked = only(parts.ask, victims)
    counts = {}
    for name, lessons in (
        ("before", []),
        ("after", [(own[0], stranger) for own in only(parts.teach, victims).values()]),
    ):
        selector = Selector(one.tools)
        teach(selector, lessons)
        results = [
            [result["name"] for result in selector.select(request, threshold=0).results]
            for requests in asked.values()
            for request in requests
        ]
        counts[name] = sum(stranger in names for names in results)
        counts[f"{name}, first"] = sum(names[:1] == [stranger] for names in results)
        counts["asked"] = len(results)
    return counts


def flood_case(one: Set, parts: Split, seed: int) -> dict[str, tuple[float, float]]:
    """Measure tools that three sources taught, before and after a fourth taught half of them what others are for."""
    chance = random.Random(seed)
    flooded = set(chance.sample(sorted(parts.teach), len(parts.teach) // 2))
    others = [request for own in only(parts.teach, set(parts.teach) - flooded).values() for request in own]
    wrong = [(request, tool) for tool in sorted(flooded) for request in chance.sample(others, min(FLOOD, len(others)))]
    found = {}
    for known in (True, False):
        selector = Selector(one.tools)
        for n, (request, tool) in enumerate(interleaved(parts.teach, 8)):
            with use_source(f"sound {n % 3}" if known else ""):
                selector.record(request, tool, True)
        found["no flood"] = figures(selector, parts.ask)
        for request, tool in wrong:
            with use_source("flood" if known else ""):
                selector.record(request, tool, True)
        found["flood by one of four sources" if known else "flood without sources"] = figures(selector, parts.ask)
    return found


def show_figures(pair: tuple[float, float]) -> str:
    return f"{pair[0]:.3f} / {pair[1]:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--levels", type=int, nargs="+", default=CURVE)
    parser.add_argument("--json", help="write the figures here too")
    given = parser.parse_args()
    out: dict[str, Any] = {}
    for folder in given.folders:
        one = load(folder)
        parts = split_requests(one, given.seed)
        asked = sum(map(len, parts.ask.values()))
        print(
            f"\n{one.name}: {len(one.tools)} tools, {asked} unseen requests for {len(parts.ask)} of them, "
            f"seed {given.seed}"
        )
        print("remembered for each used tool    used half, hit@1 / recall@5    never used")
        rows = curve(one, parts, given.seed, given.levels)
        for row in rows:
            print(
                f"{row['remembered']:>10} {row['taught']:>8} {'':12} {show_figures(row['used']):>20} "
                f"{show_figures(row['unused']):>24}",
                flush=True,
            )
        routines = routine_case(one, parts)
        for name, pair in routines.items():
            print(f"{name:32} {show_figures(pair)}", flush=True)
        strangers = [stranger_case(one, parts, given.seed + n) for n in range(3)]
        for counts in strangers:
            print("stranger:", counts, flush=True)
        floods = flood_case(one, parts, given.seed)
        for name, pair in floods.items():
            print(f"{name:32} {show_figures(pair)}", flush=True)
        out[one.name] = {"curve": rows, "routine": routines, "stranger": strangers, "flood": floods}
    if given.json:
        Path(given.json).write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
