# Request: Find flights for a round trip MUC-LIS in September with exactly 5 nights, cheapest combination
import asyncio
from datetime import date, timedelta

NIGHTS = 5
YEAR = now().year

departures = [date(YEAR, 9, d) for d in range(1, 26)]
sem = asyncio.Semaphore(4)


async def cheapest(origin, dest, day):
    async with sem:
        flights = await search_flights(origin, dest, day.isoformat(), max_stops=1)
    flights = [f for f in flights if f["seats_left"] > 0]
    return min(flights, key=lambda f: f["price"]) if flights else None


async def trip(day):
    back_day = day + timedelta(days=NIGHTS)
    out, back = await asyncio.gather(cheapest("MUC", "LIS", day), cheapest("LIS", "MUC", back_day))
    if out is None or back is None:
        return None
    return out["price"] + back["price"], day, back_day, out, back


trips = [t for t in await asyncio.gather(*[trip(d) for d in departures]) if t]
trips.sort(key=lambda t: t[0])

for price, day, back_day, out, back in trips[:3]:
    print(f"{price:.2f} {out['currency']}: {day} {out['airline']} {out['id']} / {back_day} {back['airline']} {back['id']}")
if not trips:
    print("No combination found.")
