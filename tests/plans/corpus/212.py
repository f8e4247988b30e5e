# Request: which of these SKUs exist, B-9?
import asyncio

skus = ["A-1", "A-2", "B-9"]
found = await asyncio.gather(*[get_product(s) for s in skus])
{sku: (p is not None and p["active"]) for sku, p in zip(skus, found)}
