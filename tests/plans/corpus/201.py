# Request: Estimate when SKU X-9 is sold out based on the last 30 days of sales
from datetime import date, timedelta

sku = "X-9"
since = (date.today() - timedelta(days=30)).isoformat()
product = await get_product(sku)
if product is None:
    return f"Unknown product {sku}"

sold = 0
page = 1
while True:
    result = await list_orders(since=since, page=page, per_page=100)
    sold += sum(
        line["quantity"]
        for order in result["items"]
        if order["status"] not in ("cancelled", "refunded")
        for line in order["lines"]
        if line["sku"] == sku
    )
    if page >= result["pages"]:
        break
    page += 1

if sold == 0:
    return f"{product['title']} was not sold in the last 30 days, {product['stock']} left."

per_day = sold / 30
days_left = product["stock"] / per_day
sold_out = date.today() + timedelta(days=int(days_left))
return f"{product['title']}: {product['stock']} left, {per_day:.1f} sold per day, sold out around {sold_out:%d %B %Y}."
