# Request: Search in parallel for a hotel in Vienna, Prague and Budapest for 2025-12-05 to 2025-12-07 under 150 EUR, combine price, rating and weather into one score and recommend one city. Hotel search may be slow: give up on a city after 8 seconds.
import asyncio
from dataclasses import dataclass
from statistics import fmean


@dataclass(frozen=True, slots=True)
class Candidate:
    city: str
    hotel: str
    price: float
    rating: float
    temp: float

    @property
    def score(self):
        return round(self.rating * 10 - self.price / 5 + max(min(self.temp, 20), -5) / 2, 3)

    def __gt__(self, other):
        return (self.score, other.price) > (other.score, self.price)


async def scout(city):
    async with asyncio.timeout(8):
        hotels, weather = await asyncio.gather(
            search_hotels(city, "2025-12-05", "2025-12-07"), get_weather(city))
    out = []
    for h in hotels:
        eur = h["price_per_night"] if h["currency"] == "EUR" else \
            h["price_per_night"] * await get_exchange_rate(h["currency"], "EUR")
        if 0 < eur < 150:
            out.append(Candidate(city, h["name"], round(eur, 2), h["rating"], weather.temp_c))
    return out


tasks = {city: asyncio.create_task(scout(city)) for city in ("Vienna", "Prague", "Budapest")}
done, pending = await asyncio.wait(tasks.values())
assert not pending
found, gone = [], {}
for city, task in tasks.items():
    match task.exception():
        case None:
            found += task.result()
        case TimeoutError():
            gone[city] = "too slow"
        case LookupError():
            gone[city] = "unknown city"
        case exc:
            raise exc
if not found:
    return f"Nothing found: {gone}"
best = max(found)
for city in dict.fromkeys(c.city for c in found):
    own = [c for c in found if c.city == city]
    print(f"{city}: {len(own)} hotels, average {fmean(c.price for c in own):.2f} EUR, best {max(own).hotel}")
for city, why in gone.items():
    print(f"{city}: {why}")
return f"{best.city}, {best.hotel}: {best.price} EUR, rating {best.rating}, score {best.score}"
