# Request: Book the cheapest flight MUC-OSL on June 3rd for Paul Weber, but ask me before booking
flights = await search_flights("MUC", "OSL", "2025-06-03")
available = [f for f in flights if f["seats_left"] > 0]

if not available:
    print("No seats available on 2025-06-03.")
else:
    available.sort(key=lambda f: f["price"])
    for flight in available[:3]:
        ok = await approve(
            f"Book {flight['airline']} {flight['departs'][11:16]}-{flight['arrives'][11:16]} "
            f"({flight['stops']} stops) for {flight['price']} {flight['currency']}?"
        )
        if not ok:
            continue
        try:
            booking = await book_flight(flight["id"], "Paul Weber")
            print(f"Booked! Reference: {booking['booking_ref']}, price {booking['price']}")
            break
        except RuntimeError:
            print(f"{flight['id']} sold out in the meantime, trying the next one")
    else:
        print("Nothing was booked.")
