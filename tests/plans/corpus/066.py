# Request: set stock of SKU A-100 to 250
sku = "A-100"
before = await get_product(sku)
if before is None:
    print(f"There is no product {sku}.")
else:
    after = await update_product(sku, stock=250)
    print(f"{after['title']} ({sku}): stock {before['stock']} -> {after['stock']}")
