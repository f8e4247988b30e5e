"""What the selector's scores are worth on tools never seen: python bench/select.py FOLDER FOLDER... --reliability.

Every set is left out in turn: weights and sureness are fitted on the others, as select_fit.py does, and its requests
are scored with them. Requests of the other sets are asked, too, as some for which there is no tool.
"""

from __future__ import annotations

import numpy as np

from select_data import Set
from select_fit import HAVE_A_TOOL, NAMES, ONLY_SURE, SURE_FEATURES, Case, case, fit, prepare, sure

STRANGERS = 200  # requests of each other set


def reliability(sets: list[Set]) -> list[dict[str, float]]:
    """By tenths of the best result's score: how many requests, their mean score, the share with the right tool first
    and among the first five; and that share when requests that have no tool are among them."""
    made = [prepare(one, None) for one in sets]
    own = [[case(*have, query) for query in one.queries] for one, have in zip(sets, made, strict=True)]
    foreign = []
    for n, have in enumerate(made):
        strangers = [q for m, other in enumerate(sets) if m != n for q in some(other.queries)]
        foreign.append([case(*have, {**query, "alts": None}) for query in strangers])
    used = [n for n, name in enumerate(NAMES) if name not in ONLY_SURE and "model" not in name]
    rows = []
    for n in range(len(sets)):
        found = fit(own[:n] + own[n + 1 :], used)
        table = sure(own[:n] + own[n + 1 :], foreign[:n] + foreign[n + 1 :], found)
        rows += [(*scored(one, found, table), 1 / len(own[n])) for one in own[n] if one.names]
        share = (1 - HAVE_A_TOOL) / HAVE_A_TOOL / len(foreign[n])
        rows += [(scored(one, found, table)[0], -1.0, -1.0, share) for one in foreign[n] if one.names]
    return tenths(np.array(rows))


def some(queries: list[dict]) -> list[dict]:
    return queries[:: max(1, len(queries) // STRANGERS)]


def scored(one: Case, found: np.ndarray, table: dict[str, float]) -> tuple[float, float, float]:
    """The best result's score, and whether the right tool is first, and among the first five."""
    order = np.argsort(-(one.features @ found), kind="stable")
    best = one.features[order[0]]
    z = table["bias"] + sum(table[name] * float(best[NAMES.index(name)]) for name in SURE_FEATURES)
    return 1 / (1 + float(np.exp(-z))), float(one.good[order[0]]), float(one.good[order[:5]].any())


def tenths(rows: np.ndarray) -> list[dict[str, float]]:
    """Rows of (score, first, five, weight); first and five are below 0 of requests that have no tool."""
    found = []
    for low in range(10):
        here = rows[np.minimum(np.floor(rows[:, 0] * 10), 9) == low]
        asked = here[here[:, 1] >= 0]
        if len(asked):
            weight, every = asked[:, 3].sum(), here[:, 3].sum()
            right = (asked[:, 2] * asked[:, 3]).sum()
            row = {"from": low / 10, "requests": len(asked), "without a tool": len(here) - len(asked)}
            row |= {"score": float(asked[:, 0] @ asked[:, 3] / weight)}
            row |= {"first": float(asked[:, 1] @ asked[:, 3] / weight), "five": float(right / weight)}
            found.append(row | {"five, some have no tool": float(right / every)})
    return found


def show(rows: list[dict[str, float]]) -> None:
    print("\nof the set left out, every set counting the same:")
    print(
        "score       requests without a tool  mean score  right first  in first five  in five, when 15 % have no tool"
    )
    for row in rows:
        low, count, strangers, *shares = row.values()
        print(
            f"{low:.1f} to {low + 0.1:.1f}{count:>10}{strangers:>15}" + "".join(f"{share:>13.2f}" for share in shares)
        )
