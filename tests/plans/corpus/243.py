# Request: Post weather briefings for the field team every morning: locations Kiel, Rostock, Bremen: wind, rain, and a go/no-go (wind<50 and rain<5)
LOCATIONS = ("Kiel", "Rostock", "Bremen")

lines = []
for place in LOCATIONS:
    today, *_ = await get_forecast(place, days=1)
    go = today.wind_kmh < 50 and today.rain_mm < 5
    lines.append(f"{'🟢' if go else '🔴'} {place}: wind {today.wind_kmh:.0f} km/h, rain {today.rain_mm:.1f} mm, {today.summary}")

message = f"Weather briefing {now():%d.%m.%Y}\n" + "\n".join(lines)
await post_message("#field-team", message)
print(message)
