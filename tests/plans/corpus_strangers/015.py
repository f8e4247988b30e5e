# Request: Compare flight prices from BER to LIS for every day next week and tell me the cheapest non-stop and the cheapest overall in EUR.
import asyncio
from datetime import timedelta, datetime
from functools import partial

today = now().date()
first = today + timedelta(days=(7 - today.weekday()))
days = [(first + timedelta(days=i)).isoformat() for i in range(7)]

search = partial(search_flights, "BER", "LIS")
per_day = await asyncio.gather(*(search(d) for d in days))
flights = [f for day in per_day for f in day if f["seats_left"] > 0]

if not flights:
    return "No flights with free seats found."

currencies = {f["currency"] for f in flights} - {"EUR"}
rates = {c: await get_exchange_rate(c, "EUR") for c in currencies} | {"EUR": 1.0}


def eur(f):
    return f["price"] * rates[f["currency"]]


def describe(f):
    dep, arr = (datetime.fromisoformat(f[k]) for k in ("departs", "arrives"))
    stops = "non-stop" if f["stops"] == 0 else f"{f['stops']} stop(s)"
    return f"{f['airline']} {f['id']}, {dep:%a %d %b %H:%M} → {arr:%H:%M}, {stops}, {eur(f):.2f} EUR, {f['seats_left']} seats left"


cheapest = min(flights, key=eur)
nonstop = min((f for f in flights if f["stops"] == 0), key=eur, default=None)

print("Cheapest overall: ", describe(cheapest))
print("Cheapest non-stop:", describe(nonstop) if nonstop else "none available")
