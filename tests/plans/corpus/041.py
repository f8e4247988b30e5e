# Request: Compare the weather forecast of Lisbon and Barcelona for the next 10 days: average high and number of rainy days
import asyncio
from statistics import mean

lisbon, barcelona = await asyncio.gather(
    get_forecast("Lisbon", days=10),
    get_forecast("Barcelona", days=10),
)

for name, forecast in (("Lisbon", lisbon), ("Barcelona", barcelona)):
    avg_high = mean(d.high_c for d in forecast)
    rainy = sum(1 for d in forecast if d.rain_mm >= 1)
    print(f"{name}: average high {avg_high:.1f}°C, {rainy} rainy days")
