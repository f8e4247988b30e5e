"""What type checkers see of flows: the types of tools reach the references to their values."""

from __future__ import annotations

from pathlib import Path

import pytest

from type_checker import mypy

pytestmark = pytest.mark.process

CODE = """
from typing import Any, TypedDict, assert_type
from collections.abc import AsyncIterator

from ropewalk import flow, tool
from ropewalk.builder.flow import Built
from ropewalk.builder.refs import Ref
from ropewalk.builder.step import State


class Hit(TypedDict):
    url: str
    score: float


@tool
async def search(query: str, limit: int = 5) -> list[Hit]:
    return []


@tool
def fetch(url: str) -> str:
    return url


@tool
async def stream(url: str) -> AsyncIterator[str]:
    yield url


with flow("typed", topic=str) as f:
    hits = f.call(search, query=f.input.topic)
    assert_type(hits, Ref[list[Hit]])
    assert_type(hits.filter(lambda hit: hit.score > 0.5), Ref[list[Hit]])
    assert_type(hits.sort(lambda hit: hit.score, "desc"), Ref[list[Hit]])
    assert_type(hits.map(lambda hit: f.value(1)), Ref[list[Any]])
    assert_type(hits.length() > 3, Ref[bool])
    pages = f.for_each(hits, lambda hit: f.call(fetch, url=hit.url), concurrency=4)
    assert_type(pages, Ref[list[str]])
    assert_type(f.for_each(["a"], lambda word, at: f.call(fetch, url=word)), Ref[list[str]])
    assert_type(f.loop(lambda: f.call(fetch, url="a"), limit=3), Ref[list[str]])
    assert_type(f.loop(lambda: f.call(fetch, url="a"), limit=3, collect=False), Ref[str])
    assert_type(f.call(stream, url="a"), Ref[Any])
    assert_type(f.call(fetch, hits[0].url), Ref[str])
    assert_type(f.call(fetch, url=f.value({"a": 1})), Ref[str])
    assert_type(f.call("server:tool", any=1), Ref[Any])
    assert_type(f.options(attempts=3, fallback="").call(fetch, url="a"), Ref[str])
    seen = f.state("seen", list[str], initial=[], reduce="array_append")
    assert_type(seen, State[list[str]])
    f.set(seen, pages)
    assert_type(f.loop(lambda n: f.call(fetch, url=f"{n}"), limit=3, until=lambda page: page == "a"), Ref[list[str]])
    assert_type(f.for_each(hits, lambda hit: f.value({"url": hit.url})), Ref[list[Any]])
    assert_type(f.loop(lambda: f.value(5), limit=3), Ref[list[Any]])
    with f.parallel(limit=2):
        f.call(fetch, url=f"a{pages[0]}")
    f.result({"n": pages.length()})
assert_type(f.done(), Built)
"""
WRONG = {
    'f.state("s", reduce="summ")': "call-overload",
    "f.for_each(5, lambda x: x)": "arg-type",
    "f.loop(lambda: 1)": "call-overload",
    "f.call(fetch)": "call-overload",
    "f.call(fetch, url=5)": "call-overload",
    'f.call(fetch, urll="a")': "call-overload",
    'f.call(fetch, "a", url="a")': "arg-type",
    'f.call("server:tool", "a")': "call-overload",
}


def test_the_types_of_flows(tmp_path: Path) -> None:
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(CODE)
    head = "from ropewalk import flow\n\ndef fetch(url: str) -> str:\n    return url\n\nf = flow('wrong')\n"
    wrong.write_text(head + "\n".join(WRONG) + "\n")
    report = mypy(tmp_path, "right.py", "wrong.py")
    lines = [line for line in report.splitlines() if ": error: " in line]
    assert [line for line in lines if line.startswith("right.py")] == [], report
    first = head.count("\n") + 1
    told = {int(line.split(":")[1]) - first: line for line in lines if int(line.split(":")[1]) >= first}
    for i, code in enumerate(WRONG.values()):
        assert f"[{code}]" in told.get(i, ""), (list(WRONG)[i], report)
