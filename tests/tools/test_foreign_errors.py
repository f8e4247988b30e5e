"""What is told of exceptions that are none of ours: bounded, readable, and the same in every store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ropewalk import App, transform
from ropewalk.errors import describe_exception, exception_text
from ropewalk.tools.tool import tool


class Evil(Exception):
    def __str__(self) -> str:
        raise RuntimeError("x")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("a\ud800b"), "a\ufffdb"),
        (ValueError("a\0b"), "a\ufffdb"),
        (ValueError("für 東京 😀"), "für 東京 😀"),
        (Evil(), ""),
        (ExceptionGroup("g", [ValueError("a"), KeyError("b")]), "g (2 sub-exceptions): ValueError: a; KeyError: 'b'"),
        (
            BaseExceptionGroup("g", [ExceptionGroup("h", [ValueError("a"), Evil()]), SystemExit(3)]),
            "g (2 sub-exceptions): ValueError: a; Evil; SystemExit: 3",
        ),
    ],
)
def test_text_of_an_exception(error: BaseException, text: str) -> None:
    assert exception_text(error) == text
    assert describe_exception(error) == (f"{type(error).__name__}: {text}" if text else type(error).__name__)


def test_what_a_group_says_is_bounded() -> None:
    told = exception_text(ExceptionGroup("g", [ValueError(f"{number}" * 1000) for number in range(9)]))
    assert told.count("ValueError") == 5
    assert told.endswith("…; and 4 more")
    assert len(told) < 2000


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_lone_surrogate_in_an_errors_text_is_told_alike_by_every_store(store: str, tmp_path: Any) -> None:
    @tool
    async def odd() -> str:
        raise ValueError("a\ud800b")

    @tool
    def plain() -> str:
        raise ValueError("a\ud800b")

    async def case() -> None:
        async with App("memory" if store == "memory" else f"sqlite:///{tmp_path}/r.db", tools=[odd, plain]) as app:
            for name in ("odd", "plain"):
                nodes = [{"id": "a", "type": "tool", "tool": name}]
                result = await app.run({"kind": "chain", "maxRetries": 0, "nodes": nodes})
                (error,) = result.to_dict()["errors"]
                assert error["message"] == "a\ufffdb"

    asyncio.run(case())


def test_a_transform_may_raise_whatever_it_likes() -> None:
    @transform("ends")
    def ends(value: Any) -> Any:
        raise SystemExit(3)

    @transform("evil")
    def evil(value: Any) -> Any:
        raise Evil

    async def case(name: str) -> str:
        nodes = [{"id": "a", "type": "transform", "transform": {"type": "CUSTOM", "config": {"function": name}}}]
        async with App("memory") as app:
            return str((await app.run({"kind": "chain", "nodes": nodes})).to_dict()["errors"])

    assert "transform ends failed: SystemExit: 3" in asyncio.run(case("ends"))
    assert "transform evil failed: Evil" in asyncio.run(case("evil"))
