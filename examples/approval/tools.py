"""What the shop can do."""

from ropewalk import tool


@tool
def price(item: str, count: int) -> dict[str, float]:
    """What so many of an item cost."""
    return {"total": {"rope": 12.5, "anchor": 900.0}[item] * count}


@tool
def ship(item: str, count: int, by: str | None = None) -> str:
    """Send them."""
    return f"shipped {count} x {item}" + (f", approved by {by}" if by else "")
