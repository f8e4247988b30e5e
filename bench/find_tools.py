"""Tokens of the answers of `find_tools` over the servers of a project: python bench/find_tools.py DIRECTORY QUERIES

DIRECTORY has a ropewalk.toml with `[mcp.NAME]`; QUERIES is a file with one query per line. Each query is asked alone,
as a client of `ropewalk mcp --gateway` asks it. Tokens are counted as in `bench/tokens.py`, in the text of the answer.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from statistics import mean, quantiles

from ropewalk.app.app import App
from ropewalk.doors.mcp.catalogue import Catalogue, Finder
from ropewalk.doors.mcp.gateway import Tools
from ropewalk.doors.mcp.tool_source import CallContext
from tokens import tokens


async def measured(directory: Path, queries: list[str]) -> None:
    async with App.open(directory, store="memory") as app:
        catalogue = Catalogue(Finder(app), [], [Tools(app, servers_only=True)], max_listed=0)
        await catalogue.connect()
        find = catalogue.listed["find_tools"]
        sizes, counts = [], []
        for query in queries:
            answer = await find.call({"queries": [query]}, CallContext())
            sizes.append(tokens(answer.content[0].text))
            counts.append(len(answer.structured_content["tools"]))
        definition = {"name": "find_tools", "description": find.description, "inputSchema": find.input_schema}
        print(f"{len(catalogue.tools)} tools of {len(app.toolbox.mcp.names)} servers, {len(queries)} queries")
        for name, why in app.toolbox.failures.items():
            print(f"left out: {name}: {why}")
        p25, p50, p75 = quantiles(sizes, n=4)
        p90 = quantiles(sizes, n=10)[-1]
        shares = f"p25 {p25:,.0f}, p50 {p50:,.0f}, p75 {p75:,.0f}, p90 {p90:,.0f}, max {max(sizes):,}"
        print(f"tokens of an answer: {shares}; {mean(counts):.2f} full schemas")
        print(f"tokens of the definition of find_tools: {tokens(definition):,}")


if __name__ == "__main__":
    words = Path(sys.argv[2]).read_text().splitlines()
    asyncio.run(measured(Path(sys.argv[1]), [word for word in words if word.strip()]))
