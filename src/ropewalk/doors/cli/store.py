"""`store copy`: what one store holds, into another one."""

from __future__ import annotations

from ...journal.address import open_store
from .answer import Answer
from .exits import FAILED
from .options import Json
from .table import columns


def copy(source: str, target: str, /, *, json: Json = False) -> Answer:
    """Copy everything of one store into another one, as from SQLite to Postgres.

    What is there already stays as it is, so that it can be done again; runs that a process is just executing are left
    out (exit code 1).

    Args:
        source: The address of the store to copy, or a file.
        target: The address of the store to copy into; made on demand.
    """
    from ...journal import transfer

    here = open_store(source, existing=True)
    try:
        there = open_store(target)
        try:
            done = transfer.copy(here, there)
        finally:
            there.close()
    finally:
        here.close()
    rows = [("definitions", done.definitions, done.known), ("runs", done.runs, done.there)]
    lines = [columns(("", "COPIED", "THERE BEFORE"), rows)]
    if done.parts:
        lines.append(f"with the runs {done.parts:,} that are parts of them")
    if done.live:
        lines.append(f"being executed, so not copied: {', '.join(done.live)}; copy again when they have ended")
    return Answer(
        exit=FAILED if done.live else 0,
        data={
            "definitions": done.definitions,
            "definitionsThere": done.known,
            "runs": done.runs,
            "parts": done.parts,
            "there": done.there,
            "live": done.live,
        },
        text="\n".join(lines),
    )
