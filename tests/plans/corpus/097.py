# Request: deactivate all products with zero stock that haven't sold in the last 90 days
from datetime import date, timedelta

since = date.today() - timedelta(days=90)

sold_rows = await run_sql(
    "SELECT DISTINCT sku FROM order_lines WHERE created_at >= %s", [since.isoformat()]
)
sold_skus = {row["sku"] for row in sold_rows}

candidates = [p for p in await list_products() if p["stock"] == 0 and p["sku"] not in sold_skus]

if candidates and await approve(f"Deactivate {len(candidates)} products: {', '.join(p['sku'] for p in candidates)}?"):
    for p in candidates:
        await update_product(p["sku"], active=False)
    print(f"Deactivated {len(candidates)} products.")
else:
    print("Nothing deactivated.")
