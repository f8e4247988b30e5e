# Request: run a sanity check of the product catalog: missing titles, price below cost, negative stock, weird categories
products = await list_products(active_only=False)

known_categories = {"garden", "kitchen", "office", "toys", "outdoor"}
issues = []

for p in products:
    problems = []
    if not p["title"].strip():
        problems.append("missing title")
    if p["price"] <= 0:
        problems.append("price is zero or negative")
    elif p["price"] < p["cost"]:
        problems.append(f"price {p['price']} below cost {p['cost']}")
    if p["stock"] < 0:
        problems.append(f"negative stock ({p['stock']})")
    if p["category"] not in known_categories:
        problems.append(f"unknown category '{p['category']}'")
    if problems:
        issues.append((p["sku"], problems))

print(f"Checked {len(products)} products, {len(issues)} with issues")
for sku, problems in issues:
    print(f"{sku}: {'; '.join(problems)}")
