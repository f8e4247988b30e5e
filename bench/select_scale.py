"""How a selector does as its tools grow: python bench/select_scale.py FOLDER... [--sizes 1000 10000 100000]

The tools of the folders (see select_data.py) as they are, up to their number; beyond that more are made of them, each
the name and description of two and the parameters of two, in a namespace of its own. Requests are those of the folders,
600 in all. Times are CPU time. *First* is the first round, in which most words are new to the process; *again* the
best of three more rounds.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from typing import Any

from select_data import Set, load
from selection import percentile, resident

QUERIES, ROUNDS, CHANGES = 600, 3, 300


def grown(sets: list[Set], size: int, seed: int = 5) -> list[dict[str, Any]]:
    """So many tools: those of the sets, and more that are put together of them."""
    chance = random.Random(seed)
    known = list({tool["name"]: tool for one in sets for tool in one.tools}.values())
    chance.shuffle(known)
    made = known[:size]
    while len(made) < size:
        one, two, three = (chance.choice(known) for _ in range(3))
        first, second = one["description"].split(), two["description"].split()
        own = dict((one.get("inputSchema") or {}).get("properties") or {})
        own |= dict(list(((three.get("inputSchema") or {}).get("properties") or {}).items())[:2])
        tool = {
            "name": f"{one['name']}{chance.choice(['', '_'])}{two['name'][:1].upper()}{two['name'][1:]}",
            "namespace": f"server{len(made)}",
            "description": " ".join(first[: max(3, len(first) * 2 // 3)] + second[len(second) // 2 :]),
            "inputSchema": {"type": "object", "properties": own},
        }
        made.append(tool | ({"category": one["category"]} if one.get("category") else {}))
    return made


def asked(sets: list[Set]) -> list[str]:
    chance = random.Random(9)
    each = QUERIES // len(sets)
    queries = [q["query"] for one in sets for q in chance.sample(one.queries, min(each, len(one.queries)))]
    chance.shuffle(queries)
    return queries


def times(selector: Any, queries: list[str]) -> list[float]:
    taken = []
    for query in queries:
        begin = time.process_time()
        selector.select(query, maxResults=5, threshold=0)
        taken.append((time.process_time() - begin) * 1000)
    return taken


def changes(selector: Any, tools: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """What adding and removing one tool takes."""
    added, removed = [], []
    for tool in tools:
        begin = time.process_time()
        selector.add({**tool, "namespace": "more"})
        added.append((time.process_time() - begin) * 1000)
    for tool in tools:
        begin = time.process_time()
        selector.remove(f"more:{tool['name']}")
        removed.append((time.process_time() - begin) * 1000)
    return added, removed


def main() -> None:
    from ropewalk.select.selector import Selector

    parser = argparse.ArgumentParser(prog="select_scale.py", description="How a selector does as its tools grow.")
    parser.add_argument("folders", nargs="+", help="folders with tools.jsonl and queries.jsonl")
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000, 10_000, 100_000])
    given = parser.parse_args()
    sets = [load(folder) for folder in given.folders]
    queries = asked(sets)
    print("| tools | build s | MB | first p50/p99 ms | again p50/p99 ms | add mean/max ms | remove mean/max ms |")
    print("|---|---|---|---|---|---|---|")
    for size in given.sizes:
        tools = grown(sets, size)
        gc.collect()
        before, begin = resident(), time.process_time()
        selector = Selector(tools, learn=False)
        built, memory = time.process_time() - begin, resident() - before
        rounds = [times(selector, queries) for _ in range(ROUNDS + 1)]
        both = [(percentile(one, 0.5), percentile(one, 0.99)) for one in rounds]
        again = [min(column) for column in zip(*both[1:], strict=True)]
        more = {tool["name"]: tool for tool in grown(sets, size + CHANGES, seed=77)[-CHANGES:]}
        moved = changes(selector, list(more.values()))
        change = " | ".join(f"{sum(one) / len(one):.2f} / {max(one):.1f}" for one in moved)
        first, last = (f"{p50:.2f} / {p99:.2f}" for p50, p99 in (both[0], again))
        print(f"| {size:,} | {built:.1f} | {memory:.0f} | {first} | {last} | {change} |", flush=True)
        del selector, tools


if __name__ == "__main__":
    main()
