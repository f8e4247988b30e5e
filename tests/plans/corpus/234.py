# Request: Convert the price list of category "office" to USD and GBP (rounded up to the next .95)
import math


def charm(price: float) -> float:
    """Round up to the next x.95 price."""
    base = math.floor(price) + 0.95
    return base if price <= base else base + 1


usd = await get_exchange_rate("EUR", "USD")
gbp = await get_exchange_rate("EUR", "GBP")

print(f"{'SKU':<10}{'EUR':>10}{'USD':>10}{'GBP':>10}")
for p in await list_products("office"):
    print(f"{p['sku']:<10}{p['price']:>10.2f}{charm(p['price'] * usd):>10.2f}{charm(p['price'] * gbp):>10.2f}")
