# Request: Check the weather in Berlin, Paris and Rome and tell me which is the warmest
import asyncio

cities = ["Berlin", "Paris", "Rome"]
reports = await asyncio.gather(*[get_weather(city) for city in cities])

warmest = max(reports, key=lambda r: r.temp_c)
for r in reports:
    print(f"{r.city}: {r.temp_c:.1f}°C, {r.summary}")
print(f"\nThe warmest city is {warmest.city} with {warmest.temp_c:.1f}°C.")
