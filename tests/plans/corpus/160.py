# Request: Is there any flight from FRA to NRT in the next 7 days below 600 EUR?
import asyncio
from datetime import date, timedelta

dates = [(date.today() + timedelta(days=i)).isoformat() for i in range(1, 8)]
all_flights = await asyncio.gather(*[search_flights("FRA", "NRT", d) for d in dates])

cheap = []
for d, flights in zip(dates, all_flights):
    for f in flights:
        price = f["price"]
        if f["currency"] != "EUR":
            price *= await get_exchange_rate(f["currency"], "EUR")
        if price < 600:
            cheap.append((price, d, f))

cheap.sort(key=lambda x: x[0])
for price, d, f in cheap[:10]:
    print(f"{d} {f['airline']} {f['id']} {f['stops']} stop(s): {price:.0f} EUR")
if not cheap:
    print("No flight below 600 EUR.")
