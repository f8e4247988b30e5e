"""The rows of the programs of a run, as entries of its journal."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final

from ...journal.protocol import Entry, Key
from ...plans.rows import Offers, Row, step_key
from ...values import Json
from .instances import without_attempts

_WITHOUT_VALUE: Final = 6
"""The length of a row whose value is in the entry of its call."""
_ROW: Final = re.compile(r"(.*)\[(row|offer)-(\d+)\]")


def row_entries(entries: Iterable[Entry], kind: str = "row") -> dict[str, list[Entry]]:
    """Return the entries of the rows of each program in order, by the path of the program; or those of its offers."""
    numbered: dict[str, list[tuple[int, Entry]]] = {}
    for entry in entries:
        place = _ROW.fullmatch(entry.path) if entry.kind == "row" else None
        if place is not None and place[2] == kind:
            numbered.setdefault(place[1], []).append((int(place[3]), entry))
    return {path: [entry for _, entry in sorted(rows, key=itemgetter(0))] for path, rows in numbered.items()}


def row_of(entry: Entry) -> Row:
    """Return the row of an entry; the result of a call is in the entry of the call, and not in its row."""
    data: Any = entry.data
    # Behind the value, an offer has the epoch of its retry, and the row of a step that took one says so.
    path, kind, name, arguments, status, after, *value = data
    taken = len(value) > 1 and status != "offer"
    return Row(path, kind, name, arguments, status, value[0] if value else "null", after, taken)


def rows_of(entries: Iterable[Entry]) -> dict[str, list[Row]]:
    """Return the rows of each program in order, by the path of the program."""
    return {path: [row_of(entry) for entry in rows] for path, rows in row_entries(entries).items()}


def arguments_in_rows(entries: Iterable[Entry]) -> dict[str, Json]:
    """Return the arguments of the calls that programs made, by the paths of the calls."""
    return {
        f"{program}[{step_key(row.path)}]/{row.name}": json.loads(row.arguments)
        for program, rows in rows_of(entries).items()
        for row in rows
        if row.kind == "call"
    }


def with_answers(entries: Iterable[Entry], known: Iterable[Entry] = ()) -> list[Entry]:
    """Return the entries with the row of each ended question of a program as the entry of a node at its place."""

    # `known`: Further entries of the run. A question that a program failed with is no node: its failure ends the node.
    listed, waits, ends = list(entries), dict[str, Entry](), dict[str, Any]()
    if all(entry.kind != "row" for entry in listed):
        return listed
    for entry in (*known, *listed):
        if entry.kind == "wait":
            waits[without_attempts(entry.path)] = entry
        elif entry.kind == "row" and isinstance(entry.data, dict):
            ends[entry.path] = entry.data["failed"]
    return [_ended_question(entry, waits, ends) or entry for entry in listed]


def _ended_question(entry: Entry, waits: Mapping[str, Entry], ends: Mapping[str, Any]) -> Entry | None:
    place = row_number(entry)
    row = None if place is None else row_of(entry)
    if place is None or row is None or row.kind != "question" or row.status not in ("ok", "failed"):
        return None
    program, key = place[0], step_key(row.path)
    path = f"{program}[{key}]/{row.name}"
    if (wait := waits.get(path)) is not None:
        path, entry = wait.path, replace(entry, started=wait.started)
    if key in ends.get(program, ()):
        return None
    if row.status == "ok":
        return replace(entry, path=path, kind="node", data=json.loads(row.value))
    failure: Any = row.value
    return replace(entry, path=path, kind="attempt", data={**failure, "due": None, "handled": True})


def row_number(entry: Entry) -> tuple[str, int] | None:
    """Return the program and the number of the row that an entry records; None for another entry."""
    place = _ROW.fullmatch(entry.path) if entry.kind == "row" else None
    return None if place is None or place[2] != "row" else (place[1], int(place[3]))


def first_repeated(rows: Iterable[Entry], repeated: Container[str]) -> int | None:
    """Return the number of the first row whose step is repeated."""
    return next((at for at, entry in enumerate(rows) if step_key(row_of(entry).path) in repeated), None)


def step_in(program: str, path: str) -> str | None:
    """Return the key of the step of a program that a path is at, or inside."""
    return path[len(program) + 1 :].partition("]")[0] if path.startswith(f"{program}[") else None


def free_offers(rows: Iterable[Row], offers: Iterable[Row]) -> tuple[list[Row], set[str]]:
    """Return the offers that no row took, and the paths of the steps that took one."""
    rest, taken = Offers(offers), set[str]()
    for row in rows:
        if row.taken and rest.take(row.path, row.key) is not None:
            taken.add(row.path)
    return rest.left(), taken


def repeated_rows(program: str, entries: Iterable[Entry], repeated: Container[str]) -> tuple[list[Key], list[Entry]]:
    """Return the keys of what a retry of a program does not replay, and the offers that it makes of what succeeded."""
    # repeated: The keys of the steps that are repeated.
    listed = list(entries)
    rows = row_entries(listed).get(program, [])
    first = first_repeated(rows, repeated)
    if first is None:
        return [], []
    before = [row_of(entry) for entry in row_entries(listed, "offer").get(program, [])]
    _, taken = free_offers(map(row_of, rows), before)
    inside: dict[str, list[Entry]] = {}
    for entry in listed:
        if (key := step_in(program, entry.path)) is not None:
            inside.setdefault(key, []).append(entry)
    keys = [(entry.path, entry.kind) for entry in rows[first:]]
    offers: list[Entry] = []
    for entry in rows[first:]:
        row = row_of(entry)
        key = step_key(row.path)
        # A question that is asked again finds its answer at its place.
        if row.kind != "call" or key in repeated:
            continue
        # Everything at the step is forgotten, because the program may make another call there.
        keys += [(fact.path, fact.kind) for fact in inside.get(key, ())]
        if row.path in taken or row.status not in ("ok", "late"):
            continue
        call = next((fact for fact in inside.get(key, ()) if fact.kind == "call" and _is_of(fact, program, key)), entry)
        value = json.dumps(call.data) if len(entry.data) == _WITHOUT_VALUE else row.value
        data: list[Json] = [row.path, row.kind, row.name, row.arguments, "offer", min(row.after, first), value]
        path = f"{program}[offer-{len(before) + len(offers)}]"
        offers.append(replace(call, path=path, kind="row", data=data))
    return keys, offers


def _is_of(call: Entry, program: str, key: str) -> bool:
    """Return True for the call of a step itself, and not one of a flow inside it."""
    return call.path == f"{program}[{key}]/{call.node}"
