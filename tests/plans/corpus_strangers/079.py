# Request: Build a budget for a team trip to Lisbon, 2025-10-06 to 2025-10-09: each person flies from the airport of their location, the cheapest hotel with rating over 8 and wifi. Team is Marketing.
import asyncio
from functools import partial
from types import SimpleNamespace

AIRPORTS = {"Berlin": "BER", "Paris": "CDG", "London": "LHR", "Madrid": "MAD"}
OUT, BACK = "2025-10-06", "2025-10-09"
NIGHTS = 3

_flights: dict[tuple[str, str, str], asyncio.Future] = {}


def cached_search(origin, dest, day):
    key = origin, dest, day
    if key not in _flights:
        _flights[key] = asyncio.ensure_future(search_flights(*key, max_stops=1))
    return _flights[key]


async def euros(amount, currency, *, cache={}):
    if currency != "EUR" and currency not in cache:
        cache[currency] = await get_exchange_rate(currency, "EUR")
    return amount * cache.get(currency, 1.0)


async def cheapest(origin, dest, day):
    options = [(await euros(f["price"], f["currency"]), f["id"]) for f in await cached_search(origin, dest, day) if f["seats_left"] > 0]
    return min(options, default=(None, None))


async def plan(person):
    if (airport := AIRPORTS.get(person["location"])) is None:
        return SimpleNamespace(name=person["name"], cost=None, note=f"no airport for {person['location']}")
    (there, f1), (back, f2) = await asyncio.gather(cheapest(airport, "LIS", OUT), cheapest("LIS", airport, BACK))
    if there is None or back is None:
        return SimpleNamespace(name=person["name"], cost=None, note="no flights")
    return SimpleNamespace(name=person["name"], cost=there + back, note=f"{f1} / {f2}")


hotels = [h for h in await search_hotels("Lisbon", OUT, BACK) if h["rating"] > 8 and "wifi" in map(str.lower, h["amenities"])]
if not hotels:
    return "no suitable hotel"
prices = [await euros(h["price_per_night"], h["currency"]) for h in hotels]
night, hotel = min(zip(prices, hotels), key=lambda pair: pair[0])
plans = await asyncio.gather(*map(plan, await list_employees("Marketing")))
line = partial("{:<24}{:>10.2f}  {}".format)
going = [p for p in plans if p.cost is not None]
print(*(line(p.name, p.cost, p.note) for p in going), sep="\n")
print(line("Hotel " + hotel["name"], total_hotel := night * NIGHTS * len(going), f"{NIGHTS} nights, {len(going)} rooms"))
return round(sum(p.cost for p in going) + total_hotel, 2), [f"{p.name}: {p.note}" for p in plans if p.cost is None]
