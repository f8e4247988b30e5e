"""Three small tools over a shelf of books."""

from ropewalk import tool

SHELF = {"rope": ["Knots", "Splices", "Hemp"], "sail": ["Canvas"]}


@tool
def find(topic: str) -> dict[str, list[str]]:
    """Titles about a topic."""
    return {"titles": SHELF.get(topic, [])}


@tool
def shorten(titles: list[str], most: int) -> dict[str, list[str]]:
    """The first few titles."""
    return {"titles": titles[:most]}


@tool
def card(topic: str, titles: list[str]) -> str:
    """One line for the reader."""
    return f"{topic}: {', '.join(titles) or 'nothing'}"
