"""Two tools: plain Python functions, their schemas read from the type hints."""

from ropewalk import tool


@tool
def greet(name: str) -> dict[str, str]:
    """Greet somebody."""
    return {"greeting": f"Hello, {name}!"}


@tool
def shout(text: str, times: int = 1) -> str:
    """Say it loudly."""
    return text.upper() + "!" * (times - 1)
