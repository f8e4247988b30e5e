"""The tools of a shop that sells rope."""

from ropewalk import tool

STOCK = {"hemp": 120, "nylon": 8}


@tool(annotations={"readOnlyHint": True})
def stock(material: str) -> int:
    """Metres of rope in stock of a material (hemp, nylon)."""
    return STOCK[material]


@tool
def order(material: str, metres: int) -> str:
    """Order rope from the supplier."""
    return f"ordered {metres} m of {material}"
