"""What every store must do with how tools did: add up by source, keep a fair share of each, forget."""

from __future__ import annotations

from collections import Counter

from ropewalk.journal.protocol import Store
from ropewalk.journal.tool_usage import KEPT_SOURCES, KEPT_USES, ToolUse

WORDS = (
    "amber", "birch", "cedar", "delta", "ember", "fjord", "glade", "heron", "islet", "jetty", "knoll", "larch",
    "marsh", "north", "ochre", "pearl", "quartz", "river", "shoal", "tundra",
)  # fmt: skip


def use(tool: str = "t", request: str = "r", ok: int = 1, bad: int = 0, at: float = 1.0, source: str = "") -> ToolUse:
    return ToolUse(tool=tool, request=request, successes=ok, failures=bad, at=at, source=source)


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


def test_uses_are_counted_by_source(store: Store) -> None:
    store.put_uses([use(source="a"), use(source="b", ok=2), use(ok=4), use(source="a", ok=0, bad=8)])
    assert store.list_uses() == [use(ok=4), use(source="a", bad=8), use(source="b", ok=2)]
    assert store.delete_uses("t") == 3


def test_a_source_that_asks_much_takes_no_more_than_its_share_of_the_requests(store: Store) -> None:
    """With k sources each keeps KEPT_USES // k of its requests, whoever comes later and however often."""
    for source in ("a", "b", "c"):
        store.put_uses([use(request=f"{source} wants {word}", source=source) for word in WORDS[: KEPT_USES // 4]])
    store.put_uses(
        [use(request=f"flood {one} {other}", source="f", at=9.0) for one in WORDS for other in reversed(WORDS)]
    )
    found = store.list_uses("t")
    kept = Counter(one.source for one in found if one.request)
    assert kept == dict.fromkeys("abcf", KEPT_USES // 4)
    assert [(one.source, one.successes) for one in found if not one.request] == [("f", len(WORDS) ** 2 - kept["f"])]


def test_a_source_has_all_places_while_it_is_alone(store: Store) -> None:
    store.put_uses([use(request=f"{word} {n}", source="a", at=n) for n, word in enumerate(WORDS)])
    assert sum(bool(one.request) for one in store.list_uses("t")) == KEPT_USES


def test_rows_are_bounded_however_many_sources_there_are(store: Store) -> None:
    """The sums of the sources that came longest ago are counted together; no use is lost."""
    more = KEPT_SOURCES + 9
    store.put_uses([use(request="", source=f"s{n:02}", bad=1, at=float(n)) for n in range(more)])
    store.put_uses([use(request=f"r{n}", source=f"t{n:02}", at=100.0 + n) for n in range(more)])
    found = store.list_uses("t")
    assert sum(bool(one.request) for one in found) == KEPT_USES
    sums = [one for one in found if not one.request]
    assert len(sums) == KEPT_SOURCES + 1
    assert sums[-1].source == ""
    assert (sum(one.successes for one in found), sum(one.failures for one in found)) == (2 * more, more)
