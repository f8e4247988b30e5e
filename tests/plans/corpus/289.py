# Request: Prepare packing list for all paid orders: total quantity per SKU, sorted by SKU, and number of parcels per country
from collections import Counter

quantities: Counter[str] = Counter()
parcels: Counter[str] = Counter()
titles: dict[str, str] = {}

page, pages = 1, 1
while page <= pages:
    resp = await list_orders(status="paid", page=page, per_page=100)
    pages = resp["pages"]
    for order in resp["items"]:
        parcels[order["shipping"]["country"]] += 1
        for line in order["lines"]:
            quantities[line["sku"]] += line["quantity"]
            titles.setdefault(line["sku"], line["title"])
    page += 1

return {
    "packing_list": [
        {"sku": sku, "title": titles[sku], "quantity": quantities[sku]} for sku in sorted(quantities)
    ],
    "parcels_per_country": dict(parcels),
}
