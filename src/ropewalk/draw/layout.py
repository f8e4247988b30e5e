"""Where the boxes of one region go: layers from top to bottom, few crossings, short edges.

The steps are the usual ones: a layer for each box, a place-holder wherever an edge passes a layer,
an order in each layer by the mean of the neighbours, then the positions nearest to the neighbours
that keep the order and the gaps. Linear but for the sorting, so thousands of boxes take a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

GAP_X, GAP_Y = 26.0, 40.0
_HOLDER = 14.0
_WIDEST_ROW = 12
_LONGEST_EDGE = 24
_MOST_HOLDERS = 6_000
_SWEEPS = 4

Size = tuple[float, float]
Point = tuple[float, float]


@dataclass(slots=True)
class Placed:
    """The result: the left upper corner of each box, the points each edge goes through, the size."""

    corners: list[Point]
    routes: list[list[Point]]
    width: float
    height: float


@dataclass(slots=True)
class _Item:
    width: float
    height: float
    row: int
    x: float = 0.0
    up: list[int] = field(default_factory=list)
    down: list[int] = field(default_factory=list)


def place(sizes: Sequence[Size], edges: Sequence[tuple[int, int]]) -> Placed:
    """Place boxes of the given sizes so that each edge goes down."""
    if not sizes:
        return Placed([], [], 0.0, 0.0)
    layers = _layers(len(sizes), edges)
    items = [_Item(w, h, row) for (w, h), row in zip(sizes, _rows(layers), strict=True)]
    chains = _chains(items, edges, layers)
    rows = _ordered_rows(items)
    _straighten(items, rows)
    left = min(item.x for item in items)
    tops, height = _tops(items, rows)
    # Boxes hang from the top of their row.
    corners = [(item.x - left, tops[item.row]) for item in items[: len(sizes)]]
    routes = [_route(items, chain, corners, tops, left) for chain in chains]
    width = max(item.x + item.width for item in items) - left
    return Placed(corners, routes, width, height)


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return a layer for each box, below those of the boxes it comes after."""
    waiting = [0] * count
    after: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        after[a].append(b)
        waiting[b] += 1
    layer = [0] * count
    ready = [i for i in range(count) if not waiting[i]]
    is_placed = [False] * count
    while True:
        for i in ready:
            is_placed[i] = True
            for j in after[i]:
                layer[j] = max(layer[j], layer[i] + 1)
                waiting[j] -= 1
                if not waiting[j] and not is_placed[j]:
                    ready.append(j)
        if all(is_placed):
            break
        # A cycle, which the check reports: go on with its first box as if nothing came before.
        first = is_placed.index(False)
        waiting[first] = 0
        ready = [first]
    return layer


def _rows(layer: list[int]) -> list[int]:
    """Return a row for each box."""

    # A wide layer is broken into several rows.
    members: dict[int, list[int]] = {}
    for i, number in enumerate(layer):
        members.setdefault(number, []).append(i)
    rows = [0] * len(layer)
    row = 0
    for number in sorted(members):
        for i, member in enumerate(members[number]):
            rows[member] = row + i // _WIDEST_ROW
        row += (len(members[number]) - 1) // _WIDEST_ROW + 1
    return rows


def _chains(items: list[_Item], edges: Sequence[tuple[int, int]], layers: list[int]) -> list[list[int]]:
    """Return each edge as the items that it passes, with place-holders in the rows between."""

    # Inside a layer of several rows an edge passes behind the boxes, because place-holders would only spread the layer.
    holders = 0
    chains = []
    for a, b in edges:
        chain = [a]
        span = items[b].row - items[a].row
        if layers[b] - layers[a] > 1 and span <= _LONGEST_EDGE and holders + span <= _MOST_HOLDERS:
            for row in range(items[a].row + 1, items[b].row):
                chain.append(len(items))
                items.append(_Item(_HOLDER, 0.0, row))
            holders += span - 1
        chain.append(b)
        for upper, lower in pairwise(chain):
            if items[upper].row != items[lower].row:
                items[upper].down.append(lower)
                items[lower].up.append(upper)
        chains.append(chain)
    return chains


def _ordered_rows(items: list[_Item]) -> list[list[int]]:
    """Order the items of each row from left to right, near the mean of their neighbours."""
    rows: list[list[int]] = [[] for _ in range(max(item.row for item in items) + 1)]
    for i, item in enumerate(items):
        rows[item.row].append(i)
    rank = [0.0] * len(items)

    def number(row: list[int]) -> None:
        for i, member in enumerate(row):
            rank[member] = (i + 0.5) / len(row)

    for row in rows:
        number(row)
    # Sort each row by its neighbours, alternately down and up.
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            weight = {}
            for member in row:
                joined = items[member].up if down else items[member].down
                weight[member] = sum(rank[j] for j in joined) / len(joined) if joined else rank[member]
            row.sort(key=weight.__getitem__)
            number(row)
    return rows


def _straighten(items: list[_Item], rows: list[list[int]]) -> None:
    """Set positions that keep order and gaps and are as near as possible to the middles of the neighbours."""
    for row in rows:
        x = 0.0
        for member in row:
            items[member].x = x
            x += items[member].width + GAP_X
        shift = (x - GAP_X) / 2
        for member in row:
            items[member].x -= shift
    # Move each row towards its neighbours, alternately down and up.
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            targets = []
            for member in row:
                item = items[member]
                joined = item.up if down else item.down
                if joined:
                    middle = sum(items[j].x + items[j].width / 2 for j in joined) / len(joined)
                    targets.append(middle - item.width / 2)
                else:
                    targets.append(item.x)
            _space_out(items, row, targets)


def _space_out(items: list[_Item], row: list[int], targets: list[float]) -> None:
    """Least squares under the order: neighbours that would overlap move as one block."""
    blocks: list[list[float]] = []  # [sum of wanted starts, count]
    offset = 0.0
    offsets = []
    for member, want in zip(row, targets, strict=True):
        offsets.append(offset)
        blocks.append([want - offset, 1.0])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += count
        offset += items[member].width + GAP_X
    at = 0
    for total, count in blocks:
        for _ in range(int(count)):
            items[row[at]].x = total / count + offsets[at]
            at += 1


def _tops(items: list[_Item], rows: list[list[int]]) -> tuple[list[float], float]:
    tops, y = [], 0.0
    for row in rows:
        tops.append(y)
        y += max((items[i].height for i in row), default=0.0) + GAP_Y
    return tops, y - GAP_Y


def _route(items: list[_Item], chain: list[int], corners: list[Point], tops: list[float], left: float) -> list[Point]:
    """Return a line from the bottom of the first box, past the place-holders, to the top of the last."""
    first, last = chain[0], chain[-1]
    points = [(corners[first][0] + items[first].width / 2, corners[first][1] + items[first].height)]
    for i in chain[1:-1]:
        x = items[i].x + items[i].width / 2 - left
        top = tops[items[i].row]
        bottom = tops[items[i].row + 1] - GAP_Y if items[i].row + 1 < len(tops) else top
        points.append((x, top))
        if bottom > top:
            points.append((x, bottom))
    points.append((corners[last][0] + items[last].width / 2, corners[last][1]))
    return points
