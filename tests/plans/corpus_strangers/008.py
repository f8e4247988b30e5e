# Request: What's the weather in our office cities right now? Berlin, Lisbon, Austin, Singapore. Hottest first.
import asyncio

cities = ["Berlin", "Lisbon", "Austin", "Singapore"]
reports = await asyncio.gather(*[get_weather(c) for c in cities], return_exceptions=True)

ok = []
for city, report in zip(cities, reports):
    if isinstance(report, LookupError):
        print(f"{city}: no weather data")
    elif isinstance(report, BaseException):
        raise report
    else:
        ok.append(report)

for w in sorted(ok, key=lambda w: w.temp_c, reverse=True):
    print(f"{w.city:<12}{w.temp_c:>6.1f} °C  {w.humidity}% humidity  wind {w.wind_kmh:.0f} km/h  {w.summary}")
