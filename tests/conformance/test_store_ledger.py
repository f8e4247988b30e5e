"""The ledger of a store: reservations and accounts. A store that keeps none refuses runs with a budget."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ropewalk.journal.ledger import AMOUNTS, Exhausted, LedgerStore


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
