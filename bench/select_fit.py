"""Fit the weights of the selector's features, honestly: on all sets but one, and report that one.

    python bench/select_fit.py FOLDER... [--minilm] [--write]

Each folder holds tools.jsonl and queries.jsonl (see select_data.py). The weights are of a linear model with a softmax
over the candidates of a request, every set counting the same, none below zero, strongly regularised. First every set
is left out in turn and measured with what the others gave: these are the figures to believe. Then all are
fitted together; with --write that goes to src/ropewalk/select/weights.py. How sure a score makes one (SURE) is fitted
on the sets' own requests, whose tool is or is not in the first five, and on requests of the other sets, which ask
for nothing that is there.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ropewalk.select import weights
from ropewalk.select.card import card_of
from ropewalk.select.embed import MiniLM, Vectors, model_text
from ropewalk.select.features import NAMES, Candidates, Reading
from ropewalk.select.hybrid import CANDIDATES
from ropewalk.select.index import Index
from ropewalk.select.request import read_request
from select_data import Set, load, mean, measure, right

STRENGTH = 0.01  # of the regularisation
MOST = 900  # requests of a set that are fitted on
OUT = Path(__file__).parents[1] / "src/ropewalk/select/weights.py"
SURE_FEATURES = ("coverage", "exact words", "clause covered", "meaning", "name covered", "evidence")
HAVE_A_TOOL = 0.85  # supposed share of requests for which there is a tool
FALL = 0.08  # by how much less sure a result is for each point that it is behind the best
ONLY_SURE = ("evidence",)  # the same for all that share the same words: it ranks nothing


@dataclass
class Case:
    """A request with its candidates."""

    query: dict[str, Any]
    names: list[str]
    features: np.ndarray
    good: np.ndarray


def prepare(one: Set, minilm: MiniLM | None) -> tuple[Index, Vectors | None]:
    index = Index()
    slots = [index.add(card_of(tool)) for tool in one.tools]
    if minilm is None:
        return index, None
    vectors = Vectors(minilm)
    vectors.put(slots, [model_text(index.cards[slot]) for slot in slots])
    return index, vectors


def case(index: Index, vectors: Vectors | None, query: dict[str, Any]) -> Case:
    near = None if vectors is None else vectors.near(query["query"], index.size)
    found = Candidates(index, Reading(index, read_request(query["query"])))
    slots = found.find(None, CANDIDATES, near)
    names = [index.cards[slot].key for slot in slots]
    gold = set().union(*right(query))
    return Case(query, names, found.measure(slots, near), np.array([name in gold for name in names], float))


def fit(sets: list[list[Case]], used: list[int], rounds: int = 300) -> np.ndarray:
    """The weights, by Adam on the softmax over each request's candidates."""
    cases, share = [], []
    for cases_of in sets:
        some = [c for c in cases_of[:: max(1, len(cases_of) // MOST)] if c.good.any() and len(c.names) > 1]
        cases += some
        share += [1 / len(some) / len(sets)] * len(some)
    lengths = np.array([len(c.names) for c in cases])
    starts = np.r_[0, np.cumsum(lengths)[:-1]]
    rows = np.concatenate([c.features for c in cases]).astype(float)
    spread = rows.std(0) + 1e-6
    rows = rows / spread
    off = [n for n in range(len(NAMES)) if n not in used]
    rows[:, off] = 0
    wanted = np.concatenate([c.good / c.good.sum() for c in cases])
    each = np.repeat(np.array(share), lengths)
    found, first, second = np.zeros(len(NAMES)), np.zeros(len(NAMES)), np.zeros(len(NAMES))
    for step in range(1, rounds + 1):
        value = rows @ found
        value -= np.repeat(np.maximum.reduceat(value, starts), lengths)
        power = np.exp(value)
        slope = rows.T @ (each * (power / np.repeat(np.add.reduceat(power, starts), lengths) - wanted))
        slope += STRENGTH * found
        first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope**2
        found -= 0.1 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
        found = np.maximum(found, 0)
    return found / spread


def ranked(one: Case, found: np.ndarray) -> list[str]:
    return [one.names[n] for n in np.argsort(-(one.features @ found), kind="stable")]


def report(title: str, cases: list[Case], found: np.ndarray) -> None:
    got = mean([measure(ranked(one, found), one.query) for one in cases])
    print(f"{title:34} hit@1 {got[0]:.3f}  recall@5 {got[3]:.3f}  all@5 {got[5]:.3f}")


def sure(own: list[list[Case]], foreign: list[list[Case]], found: np.ndarray) -> dict[str, float]:
    """A logistic model of "the tool is in the first five" on features of the best result."""
    rows, labels, share = [], [], []
    picked = [NAMES.index(name) for name in SURE_FEATURES]
    for ours, theirs in zip(own, foreign, strict=True):
        for cases, is_own in ((ours, True), (theirs, False)):
            for one in cases:
                order = np.argsort(-(one.features @ found))
                if len(order):
                    rows.append(one.features[order[0], picked])
                    labels.append(float(is_own and one.good[order[:5]].any()))
                    share.append((HAVE_A_TOOL if is_own else 1 - HAVE_A_TOOL) / len(cases))
    x, y, w = np.c_[np.ones(len(rows)), np.array(rows, float)], np.array(labels), np.array(share)
    w /= w.sum()
    beta = np.zeros(x.shape[1])
    for _ in range(60):  # Newton's method
        p = 1 / (1 + np.exp(-(x @ beta)))
        ridge = np.diag([0.0, *[0.002] * len(picked)])
        hessian = (x * (w * p * (1 - p))[:, None]).T @ x + ridge
        beta -= np.linalg.solve(hessian, x.T @ (w * (p - y)) + ridge @ beta)
    table = {"bias": beta[0], **dict(zip(SURE_FEATURES, beta[1:], strict=True))}
    p = 1 / (1 + np.exp(-(x @ beta)))
    good, bad = p[y == 1], p[y == 0]
    print(
        f"  sure: >= 0.3 for {np.mean(good >= 0.3):.2f} of the right ones and {np.mean(bad >= 0.3):.2f} of the others"
    )
    table["fall"] = FALL
    return {name: round(float(value), 3) for name, value in table.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--minilm", nargs="?", const="", help="fit with MiniLM too (an ONNX file)")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    sets = [load(folder) for folder in given.folders]
    models = [None] if given.minilm is None else [None, MiniLM(given.minilm or None)]
    tables: dict[str, dict[str, float]] = {"PLAIN": weights.PLAIN, "MODEL": weights.MODEL}
    certain = dict(weights.SURE)
    for model in models:
        name = "plain" if model is None else "model"
        used = [
            n for n, what in enumerate(NAMES) if what not in ONLY_SURE and (model is not None or "model" not in what)
        ]
        made = [prepare(one, model) for one in sets]
        cases = [[case(*have, query) for query in one.queries] for one, have in zip(sets, made, strict=True)]
        print(f"-- {name}")
        for n, one in enumerate(sets):
            if len(sets) > 1:
                report(f"{one.name}, fitted on the others", cases[n], fit(cases[:n] + cases[n + 1 :], used))
        found = fit(cases, used)
        for one, have in zip(sets, cases, strict=True):
            report(f"{one.name}, fitted on all", have, found)
        foreign = []
        for n, have in enumerate(made):
            strangers = [
                q for m, other in enumerate(sets) if m != n for q in other.queries[:: len(other.queries) // 200]
            ]
            foreign.append([case(*have, {**query, "alts": None}) for query in strangers])
        certain = {key: value for key, value in certain.items() if not key.startswith(name)}
        certain.update({f"{name} {key}": value for key, value in sure(cases, foreign, found).items()})
        tables[name.upper()] = {NAMES[n]: round(float(found[n]), 3) for n in used if found[n] > 0.001}
    if given.write:
        write(tables, certain, [one.name for one in sets])


def write(tables: dict[str, dict[str, float]], certain: dict[str, float], names: list[str]) -> None:
    def lines(table: dict[str, float]) -> str:
        return "".join(f'    "{key}": {value},\n' for key, value in table.items())

    head = '"""The weights of the features (see features.NAMES), and how sure a score makes one.\n\n'
    head += f"Made by `bench/select_fit.py --write` on the sets {', '.join(names)}, each counting the same.\n"
    head += 'PLAIN is without a model, MODEL with one; SURE is for both.\n"""\n\n'
    text = f"{head}from __future__ import annotations\n\nfrom typing import Final\n\n"
    for name, table in (*tables.items(), ("SURE", certain)):
        text += f"{name}: Final[dict[str, float]] = {{\n{lines(table)}}}\n"
    OUT.write_text(text)
    print(f"-> {OUT}")


if __name__ == "__main__":
    main()
