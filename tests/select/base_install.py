"""What an installation without the extra `select` does; `test_select_base.py` runs this in a process of its own."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    for library in ("numpy", "rapidfuzz", "Stemmer"):
        sys.modules[library] = None  # type: ignore[assignment]  # an import of it fails from now on

from ropewalk import App, InvalidFlow, RopewalkError, tool
from ropewalk.doors.cli.doctor import _check_packages
from ropewalk.select.selector import Selector


@tool
def get_weather(city: str) -> str:
    """Current weather and forecast for a city."""
    return f"rain in {city}"


CHAIN = {"kind": "chain", "name": "sky", "nodes": [
    {"id": "now", "type": "tool", "tool": "get_weather", "params": {"city": "$input.city"}}]}  # fmt: skip


async def use_app() -> dict[str, Any]:
    """Run and check a chain, select its tool, and learn from it."""
    async with App("base.db", tools=[get_weather]) as app:
        outcome = await app.run(CHAIN, {"city": "Oslo"}, request="get weather in Oslo")
        selected = app.selector.select("get weather")
        wrong = {**CHAIN, "nodes": [{"id": "now", "type": "tool", "tool": "get_wether"}]}
        problems: list[str] = []
        try:
            await app.run(wrong)
        except InvalidFlow as error:
            problems = [str(problem) for problem in error.problems]
        return {
            "result": outcome.results["now"],
            "selected": [selected.strategy, [found["name"] for found in selected.results]],
            "learnt": [use.request for use in app.selector.learnt()],
            "problems": problems,
        }


def rank(sample: Path) -> list[Any]:
    """Return what each documented strategy selects from a sample."""
    lines = [[json.loads(line) for line in (sample / f"{name}.jsonl").open()] for name in ("tools", "queries")]
    tools, queries = lines
    selector = Selector(tools)
    strategies = ("exact", "fuzzy", "semantic", "intent", "legacy_hybrid")
    return [
        selector.select(query["query"], strategy=strategy, threshold=0, maxResults=20).to_dict()
        for strategy in strategies
        for query in queries[::10]
    ]


if __name__ == "__main__":
    log = io.StringIO()
    logging.getLogger("ropewalk").addHandler(logging.StreamHandler(log))
    answers: dict[str, Any] = {"app": asyncio.run(use_app()), "ranks": rank(Path(sys.argv[1]))}
    answers["log"] = log.getvalue().splitlines()
    try:
        Selector(embedder=object())  # type: ignore[arg-type]
    except RopewalkError as error:
        answers["embedder"] = str(error)
    answers["doctor"] = [found.message for found in _check_packages() if found.name == "selection"]
    print(json.dumps(answers))
