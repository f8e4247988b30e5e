# Request: Try the cheapest of 3 strategies for ordering 500 pieces of A-7 ... just compute: price tiers in table supplier_prices(supplier, min_qty, unit_price, shipping)
rows = await run_sql("SELECT supplier, min_qty, unit_price, shipping FROM supplier_prices WHERE sku = %s", ["A-7"])

QTY = 500
offers = {}
for row in rows:
    if row["min_qty"] > QTY:
        continue
    cost = QTY * float(row["unit_price"]) + float(row["shipping"] or 0)
    supplier = row["supplier"]
    if supplier not in offers or cost < offers[supplier]:
        offers[supplier] = cost

if not offers:
    print("No supplier offers A-7 in that quantity.")
else:
    best = min(offers, key=offers.get)
    for supplier, cost in sorted(offers.items(), key=lambda kv: kv[1]):
        print(f"{'→' if supplier == best else ' '} {supplier}: {cost:,.2f}")
