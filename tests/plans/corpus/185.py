# Request: Check all 3 warehouses tables (stock_berlin, stock_paris, stock_madrid) and tell me where SKU B-77 is available
import asyncio

SKU = "B-77"
warehouses = {
    "Berlin": "stock_berlin",
    "Paris": "stock_paris",
    "Madrid": "stock_madrid",
}

results = await asyncio.gather(*(
    run_sql(f"SELECT quantity FROM {table} WHERE sku = %s", [SKU]) for table in warehouses.values()
))

available = {}
for city, rows in zip(warehouses, results):
    quantity = rows[0]["quantity"] if rows else 0
    if quantity > 0:
        available[city] = quantity

if available:
    for city, quantity in available.items():
        print(f"{city}: {quantity} pieces")
else:
    print(f"{SKU} is not available anywhere.")
