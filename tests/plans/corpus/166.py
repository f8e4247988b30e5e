# Request: apply a price increase of 5% rounded to .99 endings for all "kitchen" products
import math

products = await list_products(category="kitchen")
updates = []
for p in products:
    raised = p["price"] * 1.05
    new_price = math.floor(raised) + 0.99
    if new_price > p["price"]:
        updates.append((p["sku"], p["price"], new_price))

ok = await approve(f"Raise the price of {len(updates)} kitchen products by about 5%?")
if ok:
    for sku, _, new_price in updates:
        await update_product(sku, price=new_price)

{"approved": bool(ok), "updates": [{"sku": s, "from": a, "to": b} for s, a, b in updates]}
