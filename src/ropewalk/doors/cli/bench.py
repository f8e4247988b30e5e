"""`bench`: how fast steps are on this machine and on the disk or server of a store."""

from __future__ import annotations

import asyncio
from typing import Annotated

from cyclopts import Parameter, validators

from ...config import read_config
from .answer import Answer
from .options import Json, Project, StoreAddress
from .table import columns


def bench(
    *,
    steps: Annotated[
        int, Parameter(validator=validators.Number(gte=1, lte=10_000), help="Steps of each run that is measured.")
    ] = 1000,
    rounds: Annotated[
        int, Parameter(validator=validators.Number(gte=1, lte=1000), help="How often; the median counts.")
    ] = 5,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Measure what a step costs here: by hand, in memory, and on the disk or server of the store.

    The tool returns at once, so it is all Ropewalk and its store. The store itself stays as it is: an empty
    file beside it, or a schema of its own in Postgres, is made and deleted."""
    from ...testing.speed import speeds

    config = read_config(project)
    found = asyncio.run(speeds(store or config.store, config.directory, config.sync, steps, rounds))
    rows = [(one.where, one.case, f"{one.seconds * 1e6:,.1f} us", f"{1 / one.seconds:,.0f}") for one in found]
    data = [
        {"where": one.where, "case": one.case, "steps": one.steps, "microsecondsPerStep": round(one.seconds * 1e6, 3)}
        for one in found
    ]
    head = ("WHERE", "CASE", "A STEP", "STEPS/S")
    return Answer(data={"rounds": rounds, "cases": data}, text=columns(head, rows))
