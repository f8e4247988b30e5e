# Request: Find a hotel in Prague for every weekend in May (Fri-Sun), cheapest with 3+ stars each, and total
import calendar
from datetime import date, timedelta

year = now().year
fridays = [d for d in calendar.Calendar().itermonthdates(year, 5) if d.month == 5 and d.weekday() == 4]

total = 0.0
for fri in fridays:
    sun = fri + timedelta(days=2)
    hotels = await search_hotels("Prague", fri.isoformat(), sun.isoformat())
    good = [h for h in hotels if h["stars"] >= 3]
    if not good:
        print(f"{fri}: nothing found")
        continue
    best = min(good, key=lambda h: h["price_per_night"])
    cost = best["price_per_night"] * 2
    total += cost
    print(f"{fri} - {sun}: {best['name']} {'★' * best['stars']} {cost:.2f} {best['currency']}")

print(f"Total: {total:.2f}")
