# Request: compute the profit margin of order 10-2000
order = await get_order("10-2000")

revenue = 0.0
cost = 0.0
missing = []
for line in order["lines"]:
    product = await get_product(line["sku"])
    revenue += line["quantity"] * line["unit_price"]
    if product is None:
        missing.append(line["sku"])
        continue
    cost += line["quantity"] * product["cost"]

margin = (revenue - cost) / revenue if revenue else 0
print(f"Revenue {revenue:.2f}, cost {cost:.2f}, margin {margin:.1%}")
if missing:
    print("No cost known for:", ", ".join(missing))
