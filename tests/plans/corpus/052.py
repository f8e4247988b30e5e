# Request: For my trip to Vienna 12-15 May find the best hotel: at least 4 stars, rating 8+, under 180 a night, with wifi; prefer central
hotels = await search_hotels("Vienna", "2025-05-12", "2025-05-15", max_price=180)

candidates = [
    h for h in hotels
    if h["stars"] >= 4 and h["rating"] >= 8.0 and "wifi" in [a.lower() for a in h["amenities"]]
]


def score(h):
    # higher rating is better, distance costs points
    return h["rating"] - 0.5 * h["distance_km"] - h["price_per_night"] / 200


candidates.sort(key=score, reverse=True)

if candidates:
    for rank, h in enumerate(candidates[:3], start=1):
        total = h["price_per_night"] * 3
        print(f"{rank}. {h['name']} ({h['stars']}*, {h['rating']}/10), {h['distance_km']} km, {total:.0f} {h['currency']} for 3 nights")
else:
    print("No hotel matches all of your criteria.")
