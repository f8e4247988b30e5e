# Request: Plan a weekend trip to Porto in two weeks: weather, flights from BER and a hotel with breakfast under 150 a night.
import asyncio
from datetime import timedelta

today = now().date()
friday = today + timedelta(days=(4 - today.weekday()) % 7 + 7)
sunday = friday + timedelta(days=2)
needed = (sunday - today).days + 1

try:
    async with asyncio.timeout(60):
        forecast, out, back, hotels = await asyncio.gather(
            get_forecast("Porto", days=min(needed, 14)),
            search_flights("BER", "OPO", friday.isoformat(), max_stops=1),
            search_flights("OPO", "BER", sunday.isoformat(), max_stops=1),
            search_hotels("Porto", friday.isoformat(), sunday.isoformat(), max_price=150),
        )
except TimeoutError:
    return "The travel services took too long, please try again later."

weekend = [d for d in forecast if friday.isoformat() <= d.date <= sunday.isoformat()]
cheapest = lambda flights: min(flights, key=lambda f: f["price"], default=None)
hotels = [h for h in hotels if "breakfast" in (a.lower() for a in h["amenities"])]
hotels.sort(key=lambda h: (-h["rating"], h["price_per_night"]))

result = {
    "dates": f"{friday} – {sunday}",
    "weather": [f"{d.date}: {d.summary}, {d.low_c:.0f}–{d.high_c:.0f} °C, {d.rain_mm} mm" for d in weekend],
    "outbound": cheapest(out),
    "return": cheapest(back),
    "hotels": [{k: h[k] for k in ("name", "stars", "rating", "price_per_night", "distance_km")} for h in hotels[:3]],
}
if result["outbound"] and result["return"] and hotels:
    result["estimate"] = round(result["outbound"]["price"] + result["return"]["price"] + 2 * hotels[0]["price_per_night"], 2)
return result
