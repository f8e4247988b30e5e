"""What the selector's scores are worth on tools never seen: python bench/select.py FOLDER FOLDER... --reliability.

Every set is left out in turn: weights and sureness are fitted on the others, as select_fit.py does, and its requests
are scored with them. Some requests for which there is no tool are asked, too (see select_fit.py).
"""

from __future__ import annotations

import numpy as np

from ropewalk.select.hybrid import log_size, match_evidence
from select_data import Set
from select_fit import FEATURE_NAMES, HAVE_A_TOOL, Asked, Case, asked, first_five, fit, sure


def reliability(sets: list[Set]) -> list[dict[str, float]]:
    """By tenths of the best result's score: how many requests, their mean score, the share with the right tool first
    and among the first five; and that share when requests that have no tool are among them."""
    parts = asked(sets)
    used = [n for n, name in enumerate(FEATURE_NAMES) if "model" not in name]
    rows = []
    for n in range(len(sets)):
        others = parts[:n] + parts[n + 1 :]
        found = fit([of[0].own for of in others], used)
        table = sure([part for of in others for part in of], found)
        for part in parts[n]:
            rows += rows_of(part, found, table)
    return tenths(np.array(rows))


def rows_of(part: Asked, found: np.ndarray, table: dict[str, float]) -> list[tuple[float, float, float, float]]:
    own, foreign = ([c for c in cases if c.names] for cases in (part.own, part.foreign))
    rows = [(*scored(one, part.tools, found, table), 1 / len(own)) for one in own]
    share = (1 - HAVE_A_TOOL) / HAVE_A_TOOL / max(1, len(foreign))
    return rows + [(scored(one, part.tools, found, table)[0], -1.0, -1.0, share) for one in foreign]


def scored(one: Case, tools: int, found: np.ndarray, table: dict[str, float]) -> tuple[float, float, float]:
    """The best result's score, and whether the right tool is first, and among the first five."""
    five, value = match_evidence(one.features @ found, one.shares, table["usual"])
    z = table["bias"] + table["five"] * five + table["value"] * value + table["size"] * log_size(tools)
    order = first_five(one, found)
    return 1 / (1 + float(np.exp(-z))), float(one.good[order[0]]), float(one.good[order].any())


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
        "score       requests without a tool  mean score  right first  in first five  in five, when 20 % have no tool"
    )
    for row in rows:
        low, count, strangers, *shares = row.values()
        print(
            f"{low:.1f} to {low + 0.1:.1f}{count:>10}{strangers:>15}" + "".join(f"{share:>13.2f}" for share in shares)
        )
