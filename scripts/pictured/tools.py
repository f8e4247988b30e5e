# ruff: noqa: T201 - the pictures show what they print
"""The tools of the project that the pictures show: a small company's research desk. Nothing here asks anybody."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TypedDict

from ropewalk import tool

log = logging.getLogger("desk")


class Article(TypedDict):
    title: str
    source: str
    words: int


@tool(tags=["web", "search"], annotations={"readOnlyHint": True})
async def search_news(topic: str, days: int = 7) -> list[Article]:
    """Search the news of the last days for a topic, newest first."""
    log.info("searching the news of %d days for %r", days, topic)
    await asyncio.sleep(0.12)
    titles = [
        "Harbour reopens after the storm",
        "Rope prices fall again",
        "A ship arrives early",
        "New rules for knots",
    ]
    return [Article(title=f"{title} ({topic})", source="The Daily Strand", words=900) for title in titles]


@tool(tags=["web", "search"], annotations={"readOnlyHint": True})
async def search_papers(topic: str) -> list[Article]:
    """Search scientific papers and their abstracts."""
    print(f"3 journals, 214 abstracts about {topic}")
    await asyncio.sleep(0.2)
    log.warning("1 journal is behind a paywall")
    return [Article(title=f"On the tension of {topic}", source="J. Cordage", words=5200)]


@tool(tags=["text"], annotations={"readOnlyHint": True})
async def summarise(title: str, words: int) -> str:
    """Summarise a text in two sentences."""
    print(f"reading {title}: {words} words")
    await asyncio.sleep(0.04 + words / 40_000)
    return f"{title}: what happened, and why it matters. {words} words in two sentences."


@tool(tags=["text"])
async def write_digest(topic: str, summaries: list[str]) -> str:
    """Write a digest in Markdown from summaries."""
    await asyncio.sleep(0.06)
    return "\n".join([f"# {topic}", "", *(f"- {one}" for one in summaries)])


@tool(tags=["mail"], annotations={"destructiveHint": False, "openWorldHint": True})
async def send_mail(to: str, subject: str, body: str) -> str:
    """Send a mail to one person of the company."""
    await asyncio.sleep(0.03)
    return f"sent to {to}"


@tool(tags=["shop"], annotations={"readOnlyHint": True})
async def find_order(number: str) -> dict[str, object]:
    """Look up an order with its customer, its items and what was paid."""
    await asyncio.sleep(0.02)
    return {"number": number, "customer": "Ada", "total": 1840.0, "items": [{"sku": "hemp-50", "count": 4}]}


@tool(tags=["shop"], annotations={"destructiveHint": True})
async def refund(number: str, amount: float) -> str:
    """Pay money back to the customer of an order."""
    await asyncio.sleep(0.02)
    return f"refunded {amount:.2f} for {number}"


@tool(tags=["shop"])
def order(material: str, metres: int) -> str:
    """Order rope from the supplier."""
    return f"ordered {metres} m of {material}"


@tool(tags=["shop"], annotations={"readOnlyHint": True})
def stock(material: str) -> int:
    """Metres of rope in stock of a material."""
    return {"hemp": 120, "nylon": 8}[material]


@tool(tags=["data"])
async def load_rows(table: str) -> list[int]:
    """Load the rows of a table from the warehouse; it is often busy."""
    for replica in ("north", "south", "west"):
        print(f"connecting to warehouse-{replica}:5432 ...")
        print(f"warehouse-{replica}: connection refused", file=sys.stderr)
        await asyncio.sleep(0.02)
    log.error("no replica of the warehouse answers; table %s is not read", table)
    raise ConnectionError(f"warehouse: connection refused while reading {table}; 3 of 3 replicas are down")


@tool(tags=["test"])
def echo(value: object) -> object:
    """Give back what it gets."""
    return value


@tool(tags=["test"])
def large(bytes: int) -> str:
    """A text of so many bytes."""
    line = "all work and no play makes a dull rope\n"
    return (line * (bytes // len(line) + 1))[:bytes]


@tool(tags=["test"])
def count_aloud(to: int) -> int:
    """Count, and print each number."""
    for n in range(to):
        print(
            f"row {n:>6}  checked against the ledger of {1990 + n % 30}, no difference"
            + ", as in the year before" * (n % 4)
        )
    return to


@tool(tags=["time"], annotations={"timeout": 7200})
async def wait_for(event: str, seconds: float = 3600) -> str:
    """Wait until something has happened."""
    for n in range(int(seconds)):
        print(f"still waiting for {event}: {n} s")
        await asyncio.sleep(1)
    return event


@tool(tags=["test"], name="a_tool_with_a_name_that_is_longer_than_anybody_would_like_to_read_in_a_list_of_tools")
def long_name(a_parameter_with_a_name_that_is_rather_long_as_well: str = "") -> str:
    """A tool whose name and description are long: it shows what the page does with text that does not fit,
    and goes on and on, about nothing in particular, until even the most patient reader has stopped reading."""
    return a_parameter_with_a_name_that_is_rather_long_as_well
