# Request: Which products are below their reorder level? Give me a list with how many we need to order to get to twice the level.
products = await list_products()

to_order = []
for p in products:
    if p["stock"] < p["reorder_level"]:
        to_order.append({
            "sku": p["sku"],
            "title": p["title"],
            "stock": p["stock"],
            "order_quantity": 2 * p["reorder_level"] - p["stock"],
        })

to_order.sort(key=lambda x: x["order_quantity"], reverse=True)
return to_order
