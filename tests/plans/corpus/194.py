# Request: check that every product has a price at least 20% above cost, list the violations sorted by worst margin
MIN_MARGIN = 0.20

products = await list_products()

violations = []
for product in products:
    try:
        margin = product["price"] / product["cost"] - 1
    except ZeroDivisionError:
        # no cost maintained
        continue
    if margin < MIN_MARGIN:
        violations.append({**product, "margin": margin})

violations.sort(key=lambda v: v["margin"])

print(f"{len(violations)} of {len(products)} products have a margin below {MIN_MARGIN:.0%}")
for v in violations:
    print(f"{v['sku']:<10} {v['title'][:30]:<30} {v['price']:>8.2f} {v['cost']:>8.2f} {v['margin']:>7.1%}")
