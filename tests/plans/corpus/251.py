# Request: add +1 stock for each line of the returned order 10-321 and refund it
order = await get_order("10-321")

for line in order["lines"]:
    product = await get_product(line["sku"])
    if product:
        await update_product(line["sku"], stock=product["stock"] + line["quantity"])
        print(f"{line['sku']}: {product['stock']} -> {product['stock'] + line['quantity']}")

refund = await refund_order("10-321", reason="Returned")
print(f"Refunded {refund['amount']} ({refund['refund_id']})")
