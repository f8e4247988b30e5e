"""Flows as Python functions, for the tests: each is also run by Python itself."""

from __future__ import annotations

import asyncio
import math
import os
from argparse import Namespace
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypedDict

from pydantic import BaseModel

from ropewalk import plan, tool, transform


class Report(TypedDict):
    """A member and what they spent."""

    name: str
    spent: float


class Member(TypedDict):
    """A member of a team."""

    id: str
    name: str
    level: str


@dataclass
class Total:
    """How many there are."""

    count: int
    names: list[str]


class Order(BaseModel):
    """An order."""

    id: int
    lines: list[str] = []


LIMITS = {"junior": 100, "senior": 300}
SEEN: list[str] = []


@tool
async def get_team(department: str) -> list[Member]:
    """List the members of a team."""
    return [
        {"id": f"{department}-1", "name": "Ann", "level": "junior"},
        {"id": f"{department}-2", "name": "Bob", "level": "senior"},
    ]


@tool
def get_amounts(user_id: str, quarter: str) -> list[float]:
    """List the expenses of a member."""
    return [200.5, 30.0] if quarter == "Q3" else [len(user_id) * 100.0]


def over(amounts: list[float], limit: int) -> bool:
    return sum(amounts) > limit


@plan
async def overspenders(department: str, quarter: str = "Q3") -> list[Report]:
    """Team members whose expenses exceed their limit.

    Args:
        department: The department.
    """
    reports: list[Report] = []
    for member in await get_team(department=department):
        amounts = get_amounts(member["id"], quarter=quarter)
        if over(amounts, LIMITS[member["level"]]):
            reports.append(Report(name=member["name"], spent=math.floor(sum(amounts))))
    return reports


@plan
async def total(department: str) -> Total:
    """Count them."""
    first, second = await asyncio.gather(overspenders(department), overspenders(department, quarter="Q4"))
    names = [report["name"] for report in first + second]
    return Total(len(names), names)


@plan(name="texts", timeout=20)
async def indented(word: str) -> str:
    text = """
    keeps
  its indentation"""

    async def twice(value: str) -> str:
        return value * 2

    return (await twice(word)) + text + (
  "!")  # fmt: skip


@plan
async def prints(word: str) -> int:
    print("word:", word)
    return len(word)


@plan
async def order_lines(order: Order) -> list[str]:
    """The lines of an order."""
    return [line.upper() for line in order.lines]


@transform("first letters")
def initials(names: list[str]) -> list[str]:
    return [name[0] for name in names]


class Color(Enum):
    """A colour."""

    RED = "r"


class Missing(ValueError):
    """Something is missing."""


class Basket:
    """What somebody buys."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.amounts: list[float] = []

    async def fetch(self, quarter: str) -> None:
        self.amounts += get_amounts(self.owner, quarter=quarter)


@dataclass
class Point:
    """A dataclass with a method."""

    x: int
    y: int = 2

    @property
    def total(self) -> int:
        return self.x + self.y


@plan
async def classes(names: list[str]) -> dict[str, Any]:
    basket = Basket("ann")
    await basket.fetch("Q3")
    try:
        raise Missing("no")
    except ValueError as error:
        text = f"{type(error).__name__}: {error}"
    longest = max(names, key=lambda name: len(initials([name, text])[0]))
    return {
        "letters": initials(names),
        "by key": sorted([["b"], ["a"]], key=initials),
        "values": [basket.amounts, Color.RED.value, text, Point(1).total, longest],
    }


PLANS: dict[str, tuple[Callable[..., Awaitable[Any]], dict[str, Any]]] = {
    "overspenders": (overspenders, {"department": "sales"}),
    "defaults given": (overspenders, {"department": "sales", "quarter": "Q4"}),
    "total": (total, {"department": "it"}),
    "indented": (indented, {"word": "ab"}),
    "prints": (prints, {"word": "abc"}),
    "classes": (classes, {"names": ["Ann", "Bob"]}),
}


def opens(path: str) -> Any:
    return open(path)


@plan
async def wrong_names(word: str) -> int:
    os.getenv("HOME")
    SEEN.append(word)
    return 1


@plan
async def wrong_call(word: str) -> int:
    team = await get_team(departmen=word)  # type: ignore[call-arg]
    return len(team) + missing  # type: ignore[name-defined]  # noqa: F821


@plan
async def wrong_helper(word: str) -> int:
    return len(opens(word))


@plan
async def wrong_type(word: str) -> list[Member]:
    return await get_team(3)  # type: ignore[arg-type]


@plan
async def wrong_class(word: str) -> str:
    return str(Namespace(word=word))
