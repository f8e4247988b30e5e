# Request: Tell me the weather where each of our offices is (from employee locations), and warn people in cities with storms (wind > 80)
import asyncio
from collections import defaultdict

employees = await list_employees()
by_city = defaultdict(list)
for e in employees:
    by_city[e["location"]].append(e)


async def safe_weather(city):
    try:
        return await get_weather(city)
    except LookupError:
        return None


cities = list(by_city)
weather = dict(zip(cities, await asyncio.gather(*[safe_weather(c) for c in cities])))

for city, w in weather.items():
    if w is None:
        print(f"{city}: no weather data")
        continue
    print(f"{city}: {w.summary}, {w.temp_c:.0f}°C, wind {w.wind_kmh:.0f} km/h")
    if w.wind_kmh > 80:
        recipients = [e["email"] for e in by_city[city]]
        await send_mail(recipients, f"Storm warning for {city}", f"Wind speed is {w.wind_kmh:.0f} km/h. Please work from home if possible.")
        print(f"  -> warned {len(recipients)} people")
