"""The connection to Postgres breaks at everything that a run sends: before the server has heard of it, or when it has
done it and nobody hears the answer. Or the process is killed just there."""

from __future__ import annotations

from collections import Counter as Times
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from faults.hands import Alone, died
from faults.scene import BRIEF, Scene
from faults.tally import Counts
from faults.verdict import check, ends_well
from faults.wire import Wire
from postgres_server import PostgresServer, fresh
from tiers import Scale

ALONE = Alone()
HOWS = [("cut", False), ("kill", True), ("cut", True), ("kill", False)]
"""What happens, and whether the server has done what was sent."""


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    yield from fresh(postgres_server.url)


@pytest.fixture
def wire(url: str) -> Iterator[Wire]:
    made = Wire(parse_qs(urlsplit(url).query)["host"][0] + "/.s.PGSQL.5432")
    yield made
    made.close()


@pytest.mark.timeout(3600)
@pytest.mark.campaign("faults")
def test_a_connection_that_breaks_at_any_sending_costs_nothing(
    tmp_path: Path, url: str, wire: Wire, counts: Counts, scale: Scale
) -> None:
    counts.item = "connection cut, answer lost, kill -9 at every sending: Postgres"
    schema = parse_qs(urlsplit(url).query)["schema"][0]
    through = f"postgresql://postgres@127.0.0.1:{wire.port}/postgres?schema={schema}&sslmode=disable&gssencmode=disable"
    whole = ALONE.run(Scene(tmp_path / "sound", BRIEF, url), "run", "sound")
    turns = cycle(HOWS)
    at, met = 0, True
    while met:
        at += scale(3, 1)
        some = scale([next(turns)], HOWS)
        met = max([_breaks(tmp_path, through, url, wire, at, *how, whole, counts) for how in some])
    assert at > 20
    counts.clean()


def _breaks(
    folder: Path, through: str, url: str, wire: Wire, at: int, how: str, passes: bool, whole: object, counts: Counts
) -> bool:
    id = f"{at}-{how}-{passes}"
    scene = Scene(folder / id, BRIEF, through)
    wire.strike(at, passes, (lambda: process.kill()) if how == "kill" else lambda: None)
    process = ALONE.start(scene, "run", id)
    done = None if died(process) else ALONE.answer(scene, "run", process)
    met = wire.lost.is_set()
    counts.points += met
    wire.strike(0, False)
    scene = Scene(folder / id, BRIEF, url, keep=True)
    before, recorded = scene.lines(), scene.recorded(id)
    if done is not None and done != whole:
        # Only a store that cannot even be opened is no store.
        assert (done["status"], done.get("kind")) == ("refused", "StoreError"), done
        assert not before, done
    if how == "cut":
        assert set(Times(scene.started()).values()) <= {1}
    ends_well(ALONE, scene, id, whole, counts)
    check(scene, id, before, recorded, counts)
    return met
