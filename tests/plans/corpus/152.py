# Request: Get the current temperature in these cities and ignore the ones you can't find: Oslo, Atlantis, Lima, Gotham
import asyncio

cities = ["Oslo", "Atlantis", "Lima", "Gotham"]
results = await asyncio.gather(*[get_weather(c) for c in cities], return_exceptions=True)

for city, result in zip(cities, results):
    if isinstance(result, LookupError):
        print(f"{city}: not found")
    elif isinstance(result, Exception):
        print(f"{city}: error ({result})")
    else:
        print(f"{city}: {result.temp_c}°C, {result.summary.lower()}")
