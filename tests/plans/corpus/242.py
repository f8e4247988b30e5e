# Request: what is our best selling product this month?
from collections import Counter

month_start = now().date().replace(day=1).isoformat()
sold = Counter()
titles = {}
page = 1

while True:
    data = await list_orders(since=month_start, page=page)
    for order in data["items"]:
        for line in order["lines"]:
            sold[line["sku"]] += line["quantity"]
            titles[line["sku"]] = line["title"]
    if page >= data["pages"]:
        break
    page += 1

if sold:
    sku, qty = sold.most_common(1)[0]
    print(f"{titles[sku]} ({sku}) with {qty} pieces")
