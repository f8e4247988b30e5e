"""The journals that a retry, a fork and corrected code would begin with, for simulations of the rules of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from ropewalk.plans.rows import Offers, Row

_SUCCEEDED = frozenset(("ok", "late", "offer"))


class Unhelpful(Exception):
    """A retry cannot help, because the program failed by itself."""


def retry(rows: Sequence[Row], failed: Iterable[str]) -> list[Row]:
    """Return the journal of a retry."""
    # Only the failed deliveries are removed. The rows before the first of them are replayed. Whatever succeeded after
    # it is offered to the program, so nothing that succeeded is called again.
    paths = set(failed)
    first = next((index for index, row in enumerate(rows) if row.status == "failed" and row.path in paths), None)
    if first is None:
        raise Unhelpful("the program itself failed, so a retry would fail again; correct the code")
    return [*rows[:first], *_offers(row for row in rows[first + 1 :] if row.path not in paths)]


def _offers(rows: Iterable[Row]) -> Iterator[Row]:
    for row in rows:
        # The offer that a row has taken is among the rows.
        if row.kind in ("call", "question") and row.status in _SUCCEEDED and not row.taken:
            yield replace(row, status="offer")


def fork(rows: Sequence[Row], keep: int, writes: Callable[[str], bool]) -> tuple[list[Row], list[Row]]:
    """Return the first rows as a new journal, and the recorded writes that the new run will repeat."""
    repeated = [row for row in rows[keep:] if row.kind == "call" and row.status in ("ok", "late") and writes(row.name)]
    return list(rows[:keep]), repeated


def correct(rows: Sequence[Row]) -> list[Row]:
    """Return the journal of corrected code: every recorded call that succeeded is offered by tool and arguments."""
    used = {id(row) for row in _taken(rows)}
    return [
        replace(row, path="", status="offer")
        for row in rows
        if row.kind == "call" and row.status in _SUCCEEDED and id(row) not in used
    ]


def _taken(rows: Sequence[Row]) -> list[Row]:
    """Return the offers of a journal that later rows took."""
    offers = Offers(rows)
    taken = []
    for row in rows:
        if row.taken:
            offer = offers.take(row.path, row.key)
            if offer is not None:
                taken.append(offer)
    return taken


def unclaimed(rows: Sequence[Row], writes: Callable[[str], bool]) -> list[Row]:
    """Return the offered writes that the program did not ask for again: a conflict of corrected code."""
    taken = {id(row) for row in _taken(rows)}
    return [row for row in rows if row.status == "offer" and id(row) not in taken and writes(row.name)]
