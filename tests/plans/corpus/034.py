# Request: Give a 10% discount on all products in the category "garden" but never go below cost + 5%
products = await list_products(category="garden")

changes = []
for product in products:
    new_price = round(product["price"] * 0.9, 2)
    floor_price = round(product["cost"] * 1.05, 2)
    if new_price < floor_price:
        new_price = floor_price
    if new_price >= product["price"]:
        continue
    changes.append((product, new_price))

preview = "\n".join(f"{p['sku']}: {p['price']:.2f} -> {np:.2f}" for p, np in changes)
approval = await approve(f"Apply {len(changes)} price changes?\n\n{preview}")

if not approval:
    print("Price changes were not approved.")
else:
    for product, new_price in changes:
        await update_product(product["sku"], price=new_price)
    print(f"Updated {len(changes)} prices.")
    print(preview)
