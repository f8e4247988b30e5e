# Request: Will it rain in Hamburg on the weekend?
from datetime import date

forecast = await get_forecast("Hamburg", days=8)
weekend = [d for d in forecast if date.fromisoformat(d.date).weekday() in (5, 6)][:2]

rainy = [d for d in weekend if d.rain_mm > 0.5]
if rainy:
    for d in rainy:
        day_name = date.fromisoformat(d.date).strftime("%A")
        print(f"Yes, on {day_name}: {d.rain_mm} mm ({d.summary})")
else:
    print("No, the weekend in Hamburg should stay dry.")
