# Request: What would it cost to ship all paid orders to Germany if shipping costs 4.90 under 50 EUR and free above?
orders = []
page = 1
while True:
    batch = await list_orders(status="paid", page=page)
    orders += [o for o in batch["items"] if o["shipping"]["country"] == "DE"]
    if page >= batch["pages"]:
        break
    page += 1

cost = sum(4.90 if o["total"] < 50 else 0 for o in orders)
free = sum(1 for o in orders if o["total"] >= 50)
return {"orders": len(orders), "free": free, "fees_eur": round(cost, 2)}
