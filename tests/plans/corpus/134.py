# Request: Group the products by price range (0-10, 10-50, 50-100, 100+) and count
buckets = {"0-10": 0, "10-50": 0, "50-100": 0, "100+": 0}

for p in await list_products():
    price = p["price"]
    if price < 10:
        buckets["0-10"] += 1
    elif price < 50:
        buckets["10-50"] += 1
    elif price < 100:
        buckets["50-100"] += 1
    else:
        buckets["100+"] += 1

buckets
