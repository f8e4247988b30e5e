"""The ledger of a store: reservations and accounts. A store that keeps none refuses runs with a budget."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from ropewalk.journal.ledger import AMOUNTS, Exhausted, LedgerStore
from ropewalk.journal.protocol import NewRun


@pytest.fixture
def ledger(store: Any) -> LedgerStore:
    if not isinstance(store, LedgerStore):
        pytest.skip("this store keeps no ledger")
    return store


def test_a_call_is_counted_when_it_is_reserved(ledger: LedgerStore) -> None:
    assert ledger.used("a") == dict.fromkeys(AMOUNTS, 0)
    assert ledger.reserve("k", {"a": {"calls": 2}, "b": {}}) is None
    assert (ledger.used("a")["calls"], ledger.used("b")["calls"]) == (1, 1)


def test_a_reserved_key_is_counted_once_and_a_settled_one_again(ledger: LedgerStore) -> None:
    for _ in range(3):
        assert ledger.reserve("k", {"a": {"calls": 1}}) is None
    assert ledger.used("a")["calls"] == 1
    ledger.settle("k", {})
    assert ledger.reserve("k", {"a": {"calls": 1}}) == Exhausted(account="a", amount="calls", limit=1, used=1)


def test_a_refused_call_changes_no_account(ledger: LedgerStore) -> None:
    assert ledger.reserve("k", {"a": {}, "b": {"calls": 0}}) == Exhausted(account="b", amount="calls", limit=0, used=0)
    assert ledger.used("a")["calls"] == 0
    ledger.settle("k", {"tokens": 5})
    assert ledger.used("a")["tokens"] == 0


def test_a_settlement_counts_once_in_every_account(ledger: LedgerStore) -> None:
    ledger.reserve("k", {"a": {}, "b": {}})
    for _ in range(2):
        ledger.settle("k", {"tokens": 7, "cost": 0.5, "seconds": 2.5})
    for account in ("a", "b"):
        assert ledger.used(account) == {"calls": 1, "seconds": 2.5, "tokens": 7, "cost": 0.5, "unpriced": 0}
    assert ledger.reserve("l", {"a": {"tokens": 8}}) is None
    ledger.settle("l", {"tokens": 3})
    assert ledger.reserve("m", {"a": {"tokens": 8}}) == Exhausted(account="a", amount="tokens", limit=8, used=10)


def test_a_cost_is_not_limited_without_a_price(ledger: LedgerStore) -> None:
    ledger.reserve("k", {"a": {"cost": 5}})
    ledger.settle("k", {"unpriced": 1})
    assert ledger.reserve("l", {"a": {"cost": 5}}) == Exhausted(account="a", amount="cost", limit=5, used=0)
    assert ledger.reserve("l", {"a": {"tokens": 5}}) is None


def test_a_reservation_without_calls_is_not_checked(ledger: LedgerStore) -> None:
    assert ledger.reserve("k", {"a": {"calls": 0}}, 0) is None
    ledger.settle("k", {"seconds": 1.5})
    assert (ledger.used("a")["calls"], ledger.used("a")["seconds"]) == (0, 1.5)


def test_parallel_reservations_stay_within_the_limit(ledger: LedgerStore) -> None:
    async def reserve_all() -> list[Exhausted | None]:
        limits = {"a": {"calls": 5}, "b": {"calls": 50}}
        return await asyncio.gather(*(asyncio.to_thread(ledger.reserve, f"k{i}", limits) for i in range(20)))

    results = asyncio.run(reserve_all())
    assert (results.count(None), ledger.used("a")["calls"], ledger.used("b")["calls"]) == (5, 5, 5)


async def ended_run(store: Any, id: str) -> None:
    log = await store.open(NewRun(id=id, kind="chain", document={}))
    await log.finish("completed", None)


@pytest.mark.anyio
async def test_an_account_goes_with_the_last_of_its_runs(ledger: Any) -> None:
    for run in ("one", "two"):
        await ended_run(ledger, run)
        ledger.join(run, ["chain"], 0)
        ledger.join(run, ["chain"], 0)
    for account in ("chain", "alone"):
        ledger.reserve(account, {account: {"calls": 1}})
    ledger.join("two", ["alone"], 0)
    assert ledger.members("chain") == ["one", "two"]
    ledger.prune(keep=1)
    assert (ledger.members("chain"), ledger.used("chain")["calls"]) == (["two"], 1)
    ledger.prune(keep=0)
    assert (ledger.members("chain"), ledger.used("chain")["calls"], ledger.used("alone")["calls"]) == ([], 0, 0)
    # What was reserved in it is deleted, too: the key can be reserved again, and counts.
    assert ledger.reserve("chain", {"chain": {"calls": 1}}) is None
    assert ledger.used("chain")["calls"] == 1


@pytest.mark.anyio
async def test_an_account_is_kept_until_its_time_without_a_run(ledger: Any) -> None:
    await ended_run(ledger, "one")
    ledger.reserve("k", {"day": {}, "other": {}})
    ledger.join("one", ["day"], time.time() + 1000)
    ledger.join("one", ["day"], 0)  # an earlier time changes nothing
    ledger.prune(keep=0)
    assert (ledger.members("day"), ledger.used("day")["calls"], ledger.used("other")["calls"]) == ([], 1, 0)


def test_a_run_that_does_not_exist_joins_nothing(ledger: Any) -> None:
    ledger.join("none", ["a"], 0)
    assert ledger.members("a") == []
