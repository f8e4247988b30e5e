"""What requests remembered are worth, honestly: python bench/select_memory.py FOLDER FOLDER... (see select_data.py).

Of each set every request is asked once, a tenth at a time, and of the other nine tenths so many are remembered for each
tool (few tools have as many as eight); or as many, for one tool in seven. The weights of what is remembered (WORDS and
NEAREST of ropewalk.select.memory, beside a tool's value without) are fitted on all sets but one, with the weights of
the features that the others gave, and that one is reported: with nothing remembered, with what was fitted, and with
what is shipped.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from ropewalk.journal.use import ToolUse
from ropewalk.select import features, memory
from ropewalk.select.candidates import Candidates
from ropewalk.select.card import card_of
from ropewalk.select.features import NAMES
from ropewalk.select.hybrid import CANDIDATES, joined
from ropewalk.select.index import Index
from ropewalk.select.memory import Memory
from ropewalk.select.reading import Reading
from ropewalk.select.request import read_request
from select_data import Set, load, mean, measure, right
from select_fit import Case, case, fit, prepare, ranked

WAYS = {"1 each": (1, 1.0), "3 each": (3, 1.0), "8 each": (8, 1.0), "8, one tool in seven": (8, 0.15)}
PARTS = 10
SHIPPED = np.array([1.0, memory.WORDS, memory.NEAREST])


def divided(one: Set, each: int, share: float, part: int) -> tuple[list[ToolUse], list[dict[str, Any]]]:
    """What is remembered, and what is asked. Of requests for several tools every one is remembered, as runs do."""
    chance = random.Random(1)
    queries = chance.sample(one.queries, len(one.queries))
    asked, rest = queries[part::PARTS], [query for n, query in enumerate(queries) if n % PARTS != part]
    tools = sorted({gold for query in rest for gold in query["gold"]})
    some = set(chance.sample(tools, round(share * len(tools))))
    seen: dict[str, int] = {}
    uses = []
    for number, query in enumerate(rest):
        for gold in query["gold"]:
            if gold in some and seen.get(gold, 0) < each:
                seen[gold] = seen.get(gold, 0) + 1
                uses.append(ToolUse(tool=gold, request=query["query"], successes=1, at=float(number)))
    return uses, asked


def cases(one: Set, index: Index, found: np.ndarray, each: int, share: float, part: int) -> Iterator[Case]:
    """What is asked, with three features: a candidate's value with nothing remembered, and what SHIPPED weighs."""
    uses, asked = divided(one, each, share, part)
    past = Memory(uses)
    for query in asked:
        reading = Reading(index, read_request(query["query"]))
        candidates = Candidates(index, reading)
        recalled = past.recall(reading)
        assert recalled is not None
        slots, places = joined(index, past, recalled, candidates.find(None, CANDIDATES), None)
        value = features.measure(candidates, slots) @ found
        rows = np.stack((value, recalled.words[:, places], recalled.nearest[:, places]), axis=2)
        names = [card.key for card in map(index.cards.__getitem__, slots.tolist()) if card is not None]
        gold = set().union(*right(query))
        yield Case(query, names, rows, reading.shares, np.array([name in gold for name in names], float))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+")
    sets = [load(folder) for folder in parser.parse_args().folders]
    if len(sets) < 2:
        parser.error("two folders or more: the weights of each come from the others")
    used = [n for n, name in enumerate(NAMES) if "model" not in name]
    plain = []
    for one in sets:
        index, vectors = prepare(one, None)
        plain.append([case(index, vectors, query) for query in one.queries])
    asked: list[dict[str, list[Case]]] = []
    for n, one in enumerate(sets):
        found = fit(plain[:n] + plain[n + 1 :], used)
        index = Index()
        index.add([card_of(tool) for tool in one.tools])
        asked.append(
            {way: [c for part in range(PARTS) for c in cases(one, index, found, *WAYS[way], part)] for way in WAYS}
        )
    for n, one in enumerate(sets):
        others = [some for of in asked[:n] + asked[n + 1 :] for some in of.values()]
        found = fit(others, [0, 1, 2])
        found /= found[0]
        print(f"{one.name}: fitted on the others {np.round(found[1:], 2).tolist()}, shipped {SHIPPED[1:].tolist()}")
        for way, some in asked[n].items():
            said = f"  {way:22}"
            for title, weights in (("nothing", SHIPPED * [1, 0, 0]), ("fitted", found), ("shipped", SHIPPED)):
                got = mean([measure(ranked(c, weights), c.query) for c in some])
                said += f"  {title} {got[0]:.3f} / {got[3]:.3f}"
            print(said, flush=True)


if __name__ == "__main__":
    main()
