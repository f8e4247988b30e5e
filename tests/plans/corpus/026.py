# Request: Find the cheapest direct flight from BER to LHR next Monday
import datetime

today = datetime.date.today()
days_ahead = (0 - today.weekday()) % 7 or 7
next_monday = today + datetime.timedelta(days=days_ahead)

flights = await search_flights("BER", "LHR", next_monday.isoformat(), max_stops=0)
cheapest = min(flights, key=lambda f: f["price"], default=None)

if cheapest is None:
    result = f"No direct flights from BER to LHR on {next_monday}."
else:
    result = (
        f"{cheapest['airline']} {cheapest['id']}: {cheapest['departs']} → {cheapest['arrives']}, "
        f"{cheapest['price']:.2f} {cheapest['currency']}"
    )

result
