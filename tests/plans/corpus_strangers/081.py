# Request: Change the prices of all products in category "garden" by +4 %, rounded up to x.99, but restore the old prices when more than two updates fail.
import math


class PriceChange:
    """Applies price changes; restores the old ones when the block raises."""

    def __init__(self, max_failures=2):
        self.max_failures = max_failures
        self.done: dict[str, float] = {}
        self.failures: list[str] = []

    async def __aenter__(self):
        return self

    async def set(self, product, price):
        sku = product["sku"]
        try:
            await update_product(sku, price=price)
        except (KeyError, ValueError) as exc:
            self.failures.append(f"{sku}: {exc}")
            if len(self.failures) > self.max_failures:
                raise RuntimeError("too many failures") from exc
        else:
            self.done[sku] = product["price"]

    async def __aexit__(self, kind, exc, tb):
        if kind is None:
            return False
        while self.done:
            sku, old = self.done.popitem()
            await update_product(sku, price=old)
        return issubclass(kind, RuntimeError)


def nicer(price):
    raised = round(price * 1.04, 2)
    return (math.floor(raised) + 0.99) if raised <= math.floor(raised) + 0.99 else math.ceil(raised) + 0.99


async with PriceChange() as change:
    for product in await list_products(category="garden"):
        new = nicer(product["price"])
        if new != product["price"]:
            await change.set(product, new)

if not change.done and change.failures:
    return {"rolled back": True, "failures": change.failures}
average = sum(change.done.values()) / len(change.done) if change.done else 0.0
return {"changed": len(change.done), "average before": round(average, 2), "failures": change.failures}
