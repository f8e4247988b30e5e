# Request: Which products are below their reorder level? Open a purchasing ticket for each category that needs restocking.
from itertools import groupby
from operator import itemgetter

products = await list_products()
low = sorted(
    (p for p in products if p["stock"] < p["reorder_level"]),
    key=itemgetter("category", "sku"),
)
if not low:
    return "All products are sufficiently stocked."

created = []
for category, items in groupby(low, key=itemgetter("category")):
    items = list(items)
    body = "\n".join(
        f"- {p['sku']} {p['title']}: {p['stock']} in stock, reorder level {p['reorder_level']}, "
        f"suggested order {p['reorder_level'] * 2 - p['stock']} (≈ {(p['reorder_level'] * 2 - p['stock']) * p['cost']:.2f})"
        for p in items
    )
    priority = "urgent" if any(p["stock"] == 0 for p in items) else "normal"
    ticket = await create_ticket(
        f"Restock {category} ({len(items)} products)",
        body,
        priority=priority,
        labels=["purchasing", category.lower().replace(" ", "-")],
    )
    created.append((ticket["id"], category, len(items), priority))

for tid, category, n, priority in created:
    print(f"{tid}: {category}, {n} products [{priority}]")
