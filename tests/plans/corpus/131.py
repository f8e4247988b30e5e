# Request: Which SKUs were returned? Show the number of refunds per SKU this year
from collections import Counter

year_start = f"{now().year}-01-01"
returned = Counter()

page, more = 1, True
while more:
    data = await list_orders(status="refunded", since=year_start, page=page)
    for order in data["items"]:
        for line in order["lines"]:
            returned[line["sku"]] += line["quantity"]
    more = page < data["pages"]
    page += 1

for sku, qty in returned.most_common(20):
    product = await get_product(sku)
    print(f"{sku}: {qty} ({product['title'] if product else 'unknown product'})")
