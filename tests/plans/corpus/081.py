# Request: What is the total stock value at cost, per category?
async def stock_value_by_category() -> dict[str, float]:
    products = await list_products(active_only=False)
    totals: dict[str, float] = {}
    for product in products:
        value = product["stock"] * product["cost"]
        totals[product["category"]] = totals.get(product["category"], 0.0) + value
    return {category: round(value, 2) for category, value in sorted(totals.items())}


result = await stock_value_by_category()
result["TOTAL"] = round(sum(result.values()), 2)
return result
