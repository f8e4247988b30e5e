"""A flow in Python: drawn, run, written as a chain that does the same, and refused where it makes no sense.

python examples/flow.py
"""

from __future__ import annotations

import asyncio
from typing import TypedDict

from ropewalk import App, InvalidFlow, flow, tool
from ropewalk.source.load import dump


class Station(TypedDict):
    name: str
    height: int


@tool
async def stations(country: str) -> list[Station]:
    """The stations of a country."""
    heights = {"Brocken": 1134, "Fichtelberg": 1213, "List": 26}
    return [{"name": f"{country}/{name}", "height": height} for name, height in heights.items()]


@tool
async def measure(station: str) -> float:
    """The temperature at a station."""
    if station.endswith("Brocken"):
        raise ConnectionError("no answer")
    return 3.5


with flow("weather", country=str, above=int) as f:
    known = f.call(stations, country=f.input.country)
    high = known.filter(lambda station: station.height > f.input.above).sort(lambda station: station.height)
    measured = f.for_each(
        high,
        lambda station: f.options(attempts=2, fallback=None).call(measure, station=station.name),
        concurrency=4,
    )
    answered = f.options(name="answered").value(measured.filter(lambda degrees: degrees.exists()))
    f.result(
        {
            "report": f"{answered.length()} of {high.length()} stations above {f.input.above} m",
            "warmest": answered.max(),
        }
    )
weather = f.done()


async def main() -> None:
    print(weather.draw())
    async with App("memory") as app:
        given = {"country": "DE", "above": 500}
        outcome = await app.run(weather, given)
        print("as a flow: ", outcome.result)
        chain = app.convert(weather, "chain")
        print("as a chain:", (await app.run(chain, given)).result)
    print()
    print(dump(chain))

    try:
        with flow("wrong", country=str) as g:
            for _ in g.call(stations, country=g.input.country):
                pass
    except InvalidFlow as wrong:
        print("refused:", wrong)


if __name__ == "__main__":
    asyncio.run(main())
