# Request: give me tomorrow's travel advice: I fly BER-CDG, what's the weather in both cities and do I need an umbrella?
import asyncio
from datetime import date, timedelta

tomorrow = (date.today() + timedelta(days=1)).isoformat()
berlin, paris = await asyncio.gather(get_forecast("Berlin", 2), get_forecast("Paris", 2))

b = next(d for d in berlin if d.date == tomorrow)
p = next(d for d in paris if d.date == tomorrow)

print(f"Berlin: {b.low_c:.0f} to {b.high_c:.0f}°C, {b.summary}")
print(f"Paris: {p.low_c:.0f} to {p.high_c:.0f}°C, {p.summary}")

if b.rain_mm > 1 or p.rain_mm > 1:
    print("Take an umbrella.")
elif 0 < b.rain_mm + p.rain_mm <= 1:
    print("Maybe a light drizzle, an umbrella isn't necessary.")
else:
    print("No umbrella needed.")
