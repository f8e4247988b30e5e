"""Fit the weights of the selector's features, honestly: on all sets but one, and report that one.

    python bench/select_fit.py FOLDER... [--minilm | --multilingual] [--sure N] [--write]

Each folder holds tools.jsonl and queries.jsonl (see select_data.py). The weights are of a linear model with a softmax
over the candidates of each way to read a request (see hybrid.chance_by_way), every set counting the same, none below
zero, strongly regularised. First every set is left out in turn and measured with what the others gave: these are the
figures to believe of tools nobody has seen. Then half of the requests of all sets are fitted together and the other
half measured, and the other way round: that is for other requests. Then all are fitted together; --write prints the
tables for src/ropewalk/select/hybrid.py. How sure a score makes one (CALIBRATION) is fitted on requests that have a
tool, which is or is not in the first five, and on requests that have none: in each set those of the other sets, and
in registries of some tools of a set those for its other tools. So that is for sets of different things: --sure says
how many of them are.
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from ropewalk.select import hybrid as weights
from ropewalk.select.candidates import Candidates
from ropewalk.select.embedding import MiniLM, Multilingual, Vectors, model_text
from ropewalk.select.features import FEATURE_NAMES, measure_features
from ropewalk.select.hybrid import CANDIDATES, chance_by_way, log_size, match_evidence
from ropewalk.select.index import Index
from ropewalk.select.query import read_request
from ropewalk.select.reading import Reading
from ropewalk.select.tool_card import card_of
from select_data import Set, load, mean, measure, right

STRENGTH = 0.01  # of the regularisation
MOST = 900  # requests of a set that are fitted on
HAVE_A_TOOL = 0.8  # supposed share of requests for which there is a tool
SMALL = (8, 8, 25, 25, 80)  # tools of the small registries
ASKED = 100  # requests of either kind that a small registry is asked, and of each other set that a whole one is


class Once:
    """A model that embeds a text once, in whatever registry it is."""

    def __init__(self, model: MiniLM | Multilingual) -> None:
        self.model, self.id, self.scale, self.known = model, model.id, model.scale, dict[str, np.ndarray]()

    def embed_documents(self, texts: list[str]) -> np.ndarray:
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> np.ndarray:
        if text not in self.known:
            self.known[text] = self.model.embed_query(text)
        return self.known[text]


@dataclass
class Case:
    """A request with its candidates."""

    query: dict[str, Any]
    names: list[str]
    features: np.ndarray  # by way to read the request, candidate and feature
    shares: np.ndarray  # of the ways
    good: np.ndarray


def prepare(one: Set, minilm: Once | None) -> tuple[Index, Vectors | None]:
    index = Index()
    slots = index.add([card_of(tool) for tool in one.tools])
    if minilm is None:
        return index, None
    vectors = Vectors(minilm)
    vectors.put(slots, vectors.read([model_text(index.cards[slot]) for slot in slots]))
    return index, vectors


def case(index: Index, vectors: Vectors | None, query: dict[str, Any]) -> Case:
    near = None if vectors is None else vectors.scale.convert(vectors.near(query["query"], index.size))
    reading = Reading(index, read_request(query["query"]))
    found = Candidates(index, reading)
    slots = found.find(None, CANDIDATES, near)
    names = [index.cards[slot].key for slot in slots]
    gold = set().union(*right(query))
    good = np.array([name in gold for name in names], float)
    return Case(query, names, measure_features(found, slots, near), reading.shares, good)


def fit(sets: list[list[Case]], used: list[int], rounds: int = 150) -> np.ndarray:
    """The weights, by Adam on how likely the right tools are, as hybrid.chance_by_way tells it."""
    cases, share = [], []
    for cases_of in sets:
        some = [c for c in cases_of[:: max(1, len(cases_of) // MOST)] if c.good.any() and len(c.names) > 1]
        cases += some
        share += [1 / len(some) / len(sets)] * len(some)
    width = cases[0].features.shape[2]
    rows = np.concatenate([c.features.reshape(-1, width) for c in cases])[:, used]
    spread = rows.std(0) + 1e-6
    rows /= spread
    lengths = np.concatenate([np.full(len(c.shares), len(c.names)) for c in cases])  # of the ways, one after the other
    starts = np.r_[0, np.cumsum(lengths)[:-1]]
    part = np.repeat(np.concatenate([c.shares for c in cases]), lengths)
    first = np.r_[0, np.cumsum([len(c.names) for c in cases])]
    candidate = np.concatenate(
        [np.tile(np.arange(len(c.names)), len(c.shares)) + n for c, n in zip(cases, first[:-1], strict=True)]
    )
    wanted = np.concatenate([c.good / c.good.sum() * one for c, one in zip(cases, share, strict=True)])
    found, mean_slope, size = (np.zeros(len(used), np.float32) for _ in range(3))
    for step in range(1, rounds + 1):
        value = rows @ found
        power = np.exp(value - np.repeat(np.maximum.reduceat(value, starts), lengths))
        chance = power / np.repeat(np.add.reduceat(power, starts), lengths)
        whole = np.bincount(candidate, chance * part, first[-1])
        pull = (wanted / (whole + 1e-9))[candidate] * part * chance
        slope = rows.T @ (chance * np.repeat(np.add.reduceat(pull, starts), lengths) - pull).astype(np.float32)
        slope += STRENGTH * found
        mean_slope, size = 0.9 * mean_slope + 0.1 * slope, 0.99 * size + 0.01 * slope**2
        found = found - 0.15 * (mean_slope / (1 - 0.9**step)) / (np.sqrt(size / (1 - 0.99**step)) + 1e-8)
        found = np.maximum(found, 0)
    weights_of_all = np.zeros(width)
    weights_of_all[used] = found / spread
    return weights_of_all


def likely(one: Case, found: np.ndarray) -> np.ndarray:
    """How likely each candidate is, in each way to read the request."""
    return chance_by_way(one.features @ found, one.shares) if one.names else np.zeros((1, 0))


def ranked(one: Case, found: np.ndarray) -> list[str]:
    return [one.names[n] for n in np.argsort(-likely(one, found).sum(0), kind="stable")]


def report(title: str, cases: list[Case], found: np.ndarray) -> None:
    tell(title, mean([measure(ranked(one, found), one.query) for one in cases]))


def tell(title: str, got: list[float]) -> None:
    print(f"{title:34} hit@1 {got[0]:.3f}  recall@5 {got[3]:.3f}  all@5 {got[5]:.3f}")


@dataclass
class Asked:
    """What one registry is asked: requests that have a tool there, and some that have none."""

    tools: int
    own: list[Case]
    foreign: list[Case]


def some(queries: list[dict[str, Any]], most: int = ASKED) -> list[dict[str, Any]]:
    return queries[:: max(1, len(queries) // most)][:most]


def asked(sets: list[Set], minilm: Once | None = None) -> list[list[Asked]]:
    """Of each set, the whole and some small registries made of its tools; the whole is asked everything."""
    found = []
    for one in sets:
        index, vectors = prepare(one, minilm)
        strangers = [query for other in sets if other is not one for query in some(other.queries)]
        whole = [case(index, vectors, query) for query in one.queries]
        parts = [Asked(len(one.tools), whole, [case(index, vectors, {**query, "gold": []}) for query in strangers])]
        for number, size in enumerate(SMALL):
            chance = random.Random(number)
            wanted = sorted({gold for query in one.queries for gold in query["gold"]})
            names = set(chance.sample(wanted, min(size, len(wanted) // 2)))
            tools = [tool for tool in one.tools if tool["name"] in names]
            have = [query for query in one.queries if names & set().union(*right(query))]
            have_not = [query for query in one.queries if not names & set().union(*right(query))]
            index, vectors = prepare(Set(one.name, tools, []), minilm)
            part = (chance.sample(queries, min(ASKED, len(queries))) for queries in (have, have_not))
            parts.append(Asked(len(tools), *([case(index, vectors, query) for query in queries] for queries in part)))
        found.append(parts)
    return found


def sure(parts: list[Asked], found: np.ndarray) -> dict[str, float]:
    """A logistic model of "the tool is in the first five", every registry counting the same."""
    middle = [float(np.median(c.features[0] @ found)) for part in parts for c in part.own if len(c.names) >= 50]
    usual = float(np.mean(middle)) if middle else float("nan")
    rows, labels, share = [], [], []
    for part in parts:
        for cases, have in ((part.own, HAVE_A_TOOL), (part.foreign, 1 - HAVE_A_TOOL)):
            kept = [c for c in cases if c.names]
            rows += [(*match_evidence(c.features @ found, c.shares, usual), log_size(part.tools)) for c in kept]
            labels += [float(have == HAVE_A_TOOL and c.good[first_five(c, found)].any()) for c in kept]
            share += [have / max(1, len(kept))] * len(kept)
    x, y, w = np.c_[np.ones(len(rows)), np.array(rows)], np.array(labels), np.array(share)
    w /= w.sum()
    spread = np.r_[1.0, x[:, 1:].std(0)]
    if not (spread > 1e-9).all() or len(set(labels)) < 2:  # NaN is not more, either
        raise SystemExit(
            "how sure a score makes one: that takes larger sets, of at least 100 tools and as many requests each"
        )
    x /= spread
    beta = np.zeros(x.shape[1])
    ridge = np.diag([0.0, 0.002, 0.002, 0.002])
    for _ in range(60):  # Newton's method
        p = 1 / (1 + np.exp(-(x @ beta)))
        hessian = (x * (w * p * (1 - p))[:, None]).T @ x + ridge
        beta -= np.linalg.solve(hessian, x.T @ (w * (p - y)) + ridge @ beta)
    table = dict(zip(("bias", "five", "value", "size", "usual"), [*(beta / spread), usual], strict=True))
    return {name: round(float(value), 3) for name, value in table.items()}


def first_five(one: Case, found: np.ndarray) -> np.ndarray:
    return np.argsort(-likely(one, found).sum(0), kind="stable")[:5]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--minilm", nargs="?", const="", help="fit with MiniLM too (an ONNX file)")
    parser.add_argument("--multilingual", action="store_true", help="fit with the multilingual model too")
    parser.add_argument("--sure", type=int, help="fit SURE on so many folders, the first: none has tools for another's")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    sets = [load(folder) for folder in given.folders]
    models: list[Once | None] = [None]
    if given.multilingual:
        models.append(Once(Multilingual()))
    elif given.minilm is not None:
        models.append(Once(MiniLM(given.minilm or None)))
    tables: dict[str, dict[str, float]] = {
        "WEIGHTS_WITHOUT_MODEL": weights.WEIGHTS_WITHOUT_MODEL,
        "WEIGHTS_WITH_MODEL": weights.WEIGHTS_WITH_MODEL,
    }
    certain = dict(weights.CALIBRATION)
    for model in models:
        name = "plain" if model is None else "model"
        used = [n for n, what in enumerate(FEATURE_NAMES) if model is not None or "model" not in what]
        parts = asked(sets, model)
        cases = [of[0].own for of in parts]
        print(f"-- {name}")
        for n, one in enumerate(sets):
            if len(sets) > 1:
                report(f"{one.name}, fitted on the others", cases[n], fit(cases[:n] + cases[n + 1 :], used))
        halves = [fit([of[half::2] for of in cases], used) for half in (1, 0)]  # each for the requests of the other
        for one, have in zip(sets, cases, strict=True):
            got = mean([measure(ranked(c, halves[n % 2]), c.query) for n, c in enumerate(have)])
            tell(f"{one.name}, fitted on other requests", got)
        found = fit(cases, used)
        for one, have in zip(sets, cases, strict=True):
            report(f"{one.name}, fitted on all", have, found)
        apart = parts if given.sure is None else asked(sets[: given.sure], model)
        certain[name] = sure([part for of in apart for part in of], found)
        table = "WEIGHTS_WITHOUT_MODEL" if model is None else "WEIGHTS_WITH_MODEL"
        tables[table] = {FEATURE_NAMES[n]: round(float(found[n]), 3) for n in used if found[n] > 0.001}
    if given.write:
        write(tables, certain, [one.name for one in sets], given.sure)


def write(
    tables: dict[str, dict[str, float]], certain: dict[str, dict[str, float]], names: list[str], first: int | None
) -> None:
    def lines(table: dict[str, float]) -> str:
        return "".join(f'    "{key}": {value},\n' for key, value in table.items())

    print(f"# Fitted on the sets {', '.join(names)}, each counting the same.")
    print(f"# The calibration is fitted on {', '.join(names[:first])}.")
    for name, table in tables.items():
        print(f"{name}: Final[dict[str, float]] = {{\n{lines(table)}}}")
    print("CALIBRATION: Final[dict[str, dict[str, float]]] = {")
    print("".join(f'    "{name}": {json.dumps(table)},\n' for name, table in certain.items()) + "}")


if __name__ == "__main__":
    main()
