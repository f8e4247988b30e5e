"""The tools of this example, and a transform of its own."""

from __future__ import annotations

from typing import Any

from ropewalk import tool, transform

PRICES = {"rope": 4.5, "sail": 120.0, "hook": 0.4}
OPEN = {"Ann": 380.0}


@tool
def price(item: str, count: int) -> dict[str, Any]:
    """What so many of an item cost."""
    return {"item": item, "count": count, "sum": round(PRICES[item] * count, 2)}


@tool
def open_invoices(customer: str) -> float:
    """What a customer still owes."""
    if customer not in OPEN:
        raise LookupError(f"nothing is known of {customer}")
    return OPEN[customer]


@tool
def send(customer: str, lines: list[dict[str, Any]], total: float, text: str) -> dict[str, Any]:
    """Send an invoice."""
    return {"to": customer, "lines": len(lines), "total": total, "text": text}


@transform
def numbered(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines with their numbers; pure, as every transform must be."""
    return [{"nr": nr, **line} for nr, line in enumerate(lines, 1)]
