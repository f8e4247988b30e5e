# Request: I need a travel budget estimate: flight HAM-MAD 2025-09-10, back 2025-09-13, hotel max 150/night, total in EUR
import asyncio

out_flights, back_flights, hotels = await asyncio.gather(
    search_flights("HAM", "MAD", "2025-09-10"),
    search_flights("MAD", "HAM", "2025-09-13"),
    search_hotels("Madrid", "2025-09-10", "2025-09-13", max_price=150),
)

if not out_flights or not back_flights or not hotels:
    print("I couldn't find flights or hotels for these dates.")
else:
    outbound = min(out_flights, key=lambda f: f["price"])
    inbound = min(back_flights, key=lambda f: f["price"])
    hotel = max(hotels, key=lambda h: (h["rating"], -h["price_per_night"]))

    async def to_eur(amount, currency):
        if currency == "EUR":
            return amount
        return amount * await get_exchange_rate(currency, "EUR")

    flight_cost = await to_eur(outbound["price"], outbound["currency"]) + await to_eur(inbound["price"], inbound["currency"])
    hotel_cost = await to_eur(hotel["price_per_night"] * 3, hotel["currency"])

    print(f"Flights: {flight_cost:.2f} EUR ({outbound['airline']} / {inbound['airline']})")
    print(f"Hotel:   {hotel_cost:.2f} EUR ({hotel['name']}, 3 nights)")
    print(f"Total:   {flight_cost + hotel_cost:.2f} EUR")
