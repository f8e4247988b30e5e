"""What the harbour office knows."""

from ropewalk import tool

DEPTHS = {"north": 7.5, "south": 4.0}


@tool
def depth(berth: str) -> float:
    """The depth at a berth, in metres."""
    return DEPTHS[berth]


@tool
def fits(depth: float, draught: float) -> str:
    """Whether a ship of that draught floats there."""
    return "yes" if depth - draught >= 0.5 else "no"
