"""What every store must do with how tools did: add up, keep the newest, forget."""

from __future__ import annotations

from ropewalk.journal import Store, ToolUse
from ropewalk.journal.use import KEPT_USES


def use(tool: str = "t", request: str = "r", ok: int = 1, bad: int = 0, at: float = 1.0) -> ToolUse:
    return ToolUse(tool=tool, request=request, successes=ok, failures=bad, at=at)


def test_uses_of_one_request_are_added_up(store: Store) -> None:
    store.put_uses([use(ok=1, at=2.0), use(ok=0, bad=3, at=1.0)])
    store.put_uses([use(ok=4, at=5.0)])
    assert store.list_uses() == [use(ok=5, bad=3, at=5.0)]


def test_uses_are_listed_by_tool_newest_first(store: Store) -> None:
    store.put_uses([use("b", "x"), use("a", "old", at=1.0), use("a", "é\U0001f600", at=3.0), use("a", "", at=9.0)])
    assert [(one.tool, one.request) for one in store.list_uses()] == [
        ("a", "é\U0001f600"),
        ("a", "old"),
        ("a", ""),
        ("b", "x"),
    ]
    assert [one.request for one in store.list_uses("b")] == ["x"]
    assert store.list_uses("c") == []


def test_the_newest_requests_stay_and_the_others_are_added_up(store: Store) -> None:
    more = KEPT_USES + 5
    store.put_uses([use(request=f"r{n:02}", ok=n % 2, bad=1 - n % 2, at=float(n)) for n in range(more)])
    found = store.list_uses("t")
    assert [one.request for one in found[:-1]] == [f"r{n:02}" for n in range(more - 1, more - 1 - KEPT_USES, -1)]
    assert found[-1].request == ""
    assert (sum(one.successes for one in found), sum(one.failures for one in found)) == (more // 2, more - more // 2)


def test_uses_are_forgotten_by_tool_or_all(store: Store) -> None:
    store.put_uses([use("a"), use("a", "s"), use("b")])
    assert store.delete_uses("a") == 2
    assert store.delete_uses("a") == 0
    assert [one.tool for one in store.list_uses()] == ["b"]
    assert store.delete_uses() == 1
    assert store.list_uses() == []


def test_routine_requests_do_not_replace_different_ones(store: Store) -> None:
    different = ["play a song", "book a flight to Rome", "who won the match", "translate this letter"]
    store.put_uses([use(request=request, at=float(n)) for n, request in enumerate(different)])
    for n in range(40):
        store.put_uses([use(request=f"check the status of order {n}", at=10.0 + n)])
    found = store.list_uses("t")
    requests = [one.request for one in found if one.request]
    assert len(requests) == KEPT_USES
    assert set(different) <= set(requests)
    assert requests[0] == "check the status of order 39"
    assert sum(one.successes for one in found) == 44
