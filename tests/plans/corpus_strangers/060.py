# Request: Cheapest way to get from BER to SFO on 2025-09-10 with at most one change of planes, in euros, looking also at connections I build myself over LHR, CDG or AMS.
import asyncio
from datetime import datetime, timedelta
from itertools import product
from typing import NamedTuple

DATE = "2025-09-10"


class Trip(NamedTuple):
    euros: float
    legs: tuple
    arrives: str

    @property
    def route(self):
        return " > ".join([self.legs[0]["origin"], *(leg["destination"] for leg in self.legs)])


class Rates(dict):
    async def get_rate(self, currency):
        if currency not in self:
            self[currency] = 1.0 if currency == "EUR" else await get_exchange_rate(currency, "EUR")
        return self[currency]


rates = Rates()


async def price(*legs):
    return round(sum([leg["price"] * await rates.get_rate(leg["currency"]) for leg in legs]), 2)


hubs = ["LHR", "CDG", "AMS"]
direct, *halves = await asyncio.gather(
    search_flights("BER", "SFO", DATE, max_stops=1),
    *(search_flights(a, b, DATE, max_stops=0) for hub in hubs for a, b in (("BER", hub), (hub, "SFO"))),
)
trips = [Trip(await price(f), (f,), f["arrives"]) for f in direct if f["seats_left"]]
for hub, first, second in zip(hubs, halves[::2], halves[1::2]):
    trips += [
        Trip(await price(a, b), (a, b), b["arrives"])
        for a, b in product(first, second)
        if a["seats_left"] and b["seats_left"]
        and timedelta(minutes=75)
        <= datetime.fromisoformat(b["departs"]) - datetime.fromisoformat(a["arrives"])
        <= timedelta(hours=6)
    ]
if not trips:
    return "nothing found"
best = min(trips, key=lambda t: (t.euros, t.arrives))
return f"{best.route}: {best.euros:.2f} EUR, flights {', '.join(leg['id'] for leg in best.legs)}, arrives {best.arrives}"
