# Request: What's the average rating and price of Amsterdam hotels by stars for next weekend?
from collections import defaultdict
from datetime import date, timedelta
from statistics import mean

today = date.today()
friday = today + timedelta(days=(4 - today.weekday()) % 7 + 7)
hotels = await search_hotels("Amsterdam", friday.isoformat(), (friday + timedelta(days=2)).isoformat())

by_stars = defaultdict(list)
for h in hotels:
    by_stars[h["stars"]].append(h)

for stars in sorted(by_stars, reverse=True):
    group = by_stars[stars]
    print(f"{stars}★: {len(group):>3} hotels, rating {mean(h['rating'] for h in group):.1f}, price {mean(h['price_per_night'] for h in group):.0f} {group[0]['currency']}")
