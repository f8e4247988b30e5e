# Request: Try to book the 8am flight CGN-ZRH on 2025-10-01 for both Ina and Tim; if one can't be booked tell me
flights = await search_flights("CGN", "ZRH", "2025-10-01")
morning = [f for f in flights if f["departs"][11:13] == "08"]

if not morning:
    print("There is no 8am flight on that day.")
elif morning[0]["seats_left"] < 2:
    print(f"Only {morning[0]['seats_left']} seat(s) left, I booked nothing.")
else:
    flight = morning[0]
    bookings = {}
    for passenger in ("Ina", "Tim"):
        try:
            b = await book_flight(flight["id"], passenger)
            bookings[passenger] = b["booking_ref"]
        except RuntimeError as e:
            bookings[passenger] = None
            print(f"Could not book for {passenger}: {e}")

    for passenger, ref in bookings.items():
        if ref is not None:
            print(f"{passenger}: booked, reference {ref}")
