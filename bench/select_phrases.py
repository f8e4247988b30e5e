"""What usage phrases change in a selection: python bench/select_phrases.py FOLDER [--phrases FILE] [--model NAME].

FOLDER has tools.jsonl and queries.jsonl, as for select.py. A request may have a `kind`, and every kind is reported.
FILE is a `ropewalk.phrases`, or JSON `{id: [phrase, ...]}`. Each row has hit@1 and recall@5 with an interval that has
the mean in 95 of 100 cases (bootstrap over requests), and the gain over the first row.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path

from ropewalk.select.phrase_rules import phrases_by_rules
from ropewalk.select.phrases import Entry, PhraseBook, description_hash, read_phrase_book
from ropewalk.select.selector import Selector
from ropewalk.select.tool_card import Card, card_of
from select_data import load, measure

SAMPLES = 2000
HIT, RECALL = 0, 3  # of select_data.MEASURES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--phrases", type=Path, help="a file of phrases, in addition to none and those by rules")
    parser.add_argument("--model", default="none", help="none, minilm, multilingual or module:Class")
    given = parser.parse_args()
    one = load(given.folder)
    cards = [card_of(tool) for tool in one.tools]
    books = {
        "no phrases": PhraseBook(known=False),
        "by rules": book(cards, {card.key: phrases_by_rules(card) for card in cards}),
    }
    if given.phrases is not None:
        books[given.phrases.name] = read(given.phrases, cards)
    kinds = {"all": one.queries}
    for query in one.queries:
        if "kind" in query:
            kinds.setdefault(query["kind"], []).append(query)
    first: dict[str, list[list[float]]] = {}
    for name, phrases in books.items():
        selector = Selector(one.tools, phrases=phrases, learn=False, embedder=given.model)
        selector.select(one.queries[0]["query"])
        for kind, queries in kinds.items():
            start = time.process_time()
            rows = [measure(rank(selector, query["query"]), query) for query in queries]
            spent = (time.process_time() - start) / len(queries) * 1000
            print(f"{name:24} {kind:10} {len(queries):4}  {spent:6.2f} ms", end="")
            for place, label in ((HIT, "hit@1"), (RECALL, "recall@5")):
                values = [row[place] for row in rows]
                print(f"   {label} {interval(values)}", end="")
                if kind in first:
                    gains = [new - row[place] for new, row in zip(values, first[kind], strict=True)]
                    print(f" ({interval(gains, sign=True)})", end="")
            first.setdefault(kind, rows)
            print(flush=True)


def rank(selector: Selector, query: str) -> list[str]:
    return [str(one["name"]) for one in selector.select(query, {"maxResults": 10, "threshold": 0}).results]


def book(cards: Sequence[Card], phrases: dict[str, Sequence[str]]) -> PhraseBook:
    described = {card.key: description_hash(card.description) for card in cards}
    return PhraseBook(
        {key: Entry(described[key], tuple(some)) for key, some in phrases.items() if key in described}, known=False
    )


def read(path: Path, cards: Sequence[Card]) -> PhraseBook:
    data = json.loads(path.read_bytes())
    return read_phrase_book(path) if "tools" in data else book(cards, data)


def interval(values: Sequence[float], *, sign: bool = False) -> str:
    """The mean, and the interval that has it in 95 of 100 samples of the requests."""
    rng = random.Random(1)
    count = len(values)
    means = sorted(sum(rng.choices(values, k=count)) / count for _ in range(SAMPLES))
    low, high = means[int(0.025 * SAMPLES)], means[int(0.975 * SAMPLES)]
    return f"{sum(values) / count:{'+' if sign else ''}.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    main()
