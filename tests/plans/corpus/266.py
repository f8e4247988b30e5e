# Request: check whether tomorrow's flight weather is fine: for each event tomorrow with location, is it outdoors-friendly? (grace@acme.com, locations are cities)
from datetime import date, timedelta

tomorrow = date.today() + timedelta(days=1)
events = await list_events("grace@acme.com", tomorrow.isoformat(), (tomorrow + timedelta(days=1)).isoformat())

forecasts = {}
for ev in events:
    city = ev["location"]
    if not city:
        continue
    if city not in forecasts:
        try:
            days = await get_forecast(city, days=2)
            forecasts[city] = days[1]
        except LookupError:
            forecasts[city] = None

    f = forecasts[city]
    if f is None:
        print(f"{ev['title']}: no forecast for {city!r}")
    elif f.rain_mm < 1 and f.wind_kmh < 40:
        print(f"{ev['title']} in {city}: fine ({f.summary}, {f.high_c:.0f}°C)")
    else:
        print(f"{ev['title']} in {city}: bad weather ({f.summary}, {f.rain_mm:.0f} mm rain, wind {f.wind_kmh:.0f} km/h)")
