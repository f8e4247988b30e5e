"""Tools that fail in the ways real ones do."""

from __future__ import annotations

from ropewalk import tool

_asked = {"count": 0}


@tool
async def rates() -> dict[str, float]:
    """Exchange rates; the first answer of a process is always a failure."""
    _asked["count"] += 1
    if _asked["count"] == 1:
        raise ConnectionError("connection reset by peer")
    return {"EUR": 1.0, "USD": 1.1, "JPY": 165.0}


@tool
async def stock(item: str) -> int:
    """How many are left; the shelf of the unicorn does not exist."""
    if item == "unicorn":
        raise LookupError(f"no shelf for {item}")
    return len(item)


@tool
async def discount(customer: str) -> float:
    """The customer's discount; this service is always down."""
    raise TimeoutError("discount service is down")


@tool
async def quote(price: float, rate: float, discount: float, stock: dict[str, object]) -> dict[str, object]:
    """Put an offer together."""
    return {"price": round(price * rate * (1 - discount), 2), "stock": stock}
