# Request: Is our product catalog price consistent with what customers pay? Compare unit prices of the last 100 orders with the current price
products = {p["sku"]: p for p in await list_products(active_only=False)}
recent = await list_orders(per_page=100)

diffs = {}
for order in recent["items"]:
    for line in order["lines"]:
        p = products.get(line["sku"])
        if p is None:
            continue
        delta = line["unit_price"] - p["price"]
        if abs(delta) >= 0.01:
            diffs.setdefault(line["sku"], []).append(delta)

for sku, deltas in sorted(diffs.items(), key=lambda kv: max(abs(d) for d in kv[1]), reverse=True):
    lo, hi = min(deltas), max(deltas)
    print(f"{sku}: {len(deltas)} lines differ, {lo:+.2f} to {hi:+.2f}")

print(f"{len(diffs)} SKUs with differing prices")
