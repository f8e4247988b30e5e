"""The Runner: one tool call through the pipeline, a chain of calls, progress and streams.

python examples/runner.py
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ropewalk import ChainStep, Runner, Toolbox, tool
from ropewalk.errors import ValidationFailed


@tool
def words(text: str) -> list[str]:
    """Split a text into words."""
    return text.split()


@tool
async def longest(previous: list[str]) -> str:
    """The longest of the words the step before gave."""
    return max(previous, key=len)


@tool
async def count(to: int) -> AsyncIterator[int]:
    """Count, one number at a time."""
    for number in range(to):
        yield number


async def main() -> None:
    runner = Runner(index=Toolbox([words, longest, count]))

    result = await runner.run("words", {"text": "many strands laid into one rope"})
    print("one call:", result.structured)

    try:
        await runner.run("words", {"txt": "a typing mistake"})
    except ValidationFailed as error:
        print("refused before the call:", *error.problems)

    steps = [ChainStep("words", {"text": "many strands laid into one rope"}), ChainStep("longest", use_previous=True)]
    chain = await runner.run_chain_with_progress(
        steps, lambda event: print(f"  {event.progress:g}/{event.total:g} {event.message}")
    )
    print("a chain:", chain.final.structured if chain.final else None)

    async for event in runner.run_stream("count", {"to": 3}):
        print("streamed:", event.kind, event.data)


if __name__ == "__main__":
    asyncio.run(main())
