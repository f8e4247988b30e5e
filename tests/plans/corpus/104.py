# Request: Tell me whether we should do the team event outdoors on Friday in Munich: at least 18 degrees, less than 2mm rain, wind under 30 km/h
from datetime import date


def check_day(day) -> list[str]:
    """Return the reasons against being outdoors on that day."""
    reasons = []
    if day.high_c < 18:
        reasons.append(f"only {day.high_c:.0f}°C")
    if day.rain_mm >= 2:
        reasons.append(f"{day.rain_mm:.1f} mm rain")
    if day.wind_kmh >= 30:
        reasons.append(f"wind up to {day.wind_kmh:.0f} km/h")
    return reasons


for day in await get_forecast("Munich", 7):
    if date.fromisoformat(day.date).weekday() != 4:
        continue
    reasons = check_day(day)
    if reasons:
        print(f"Better indoors: {', '.join(reasons)}.")
    else:
        print(f"Go outdoors! {day.summary}, {day.high_c:.0f}°C.")
    break
else:
    print("No forecast for Friday available.")
