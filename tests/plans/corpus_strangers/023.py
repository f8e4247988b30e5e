# Request: Raise the prices of all products in "Coffee" by 5%, rounded up to .99, but only where the margin is below 40%.
import math

products = await list_products(category="Coffee")


def charm(price: float) -> float:
    """Round up to the next x.99."""
    return math.ceil(price + 0.01) - 0.01


plan = []
for p in products:
    if p["price"] <= 0:
        continue
    margin = 1 - p["cost"] / p["price"]
    if margin < 0.40:
        new = round(charm(p["price"] * 1.05), 2)
        plan.append((p["sku"], p["title"], p["price"], new, margin))

if not plan:
    return "No coffee product has a margin below 40%."

preview = "\n".join(f"{sku} {title}: {old:.2f} -> {new:.2f} (margin {m:.0%})" for sku, title, old, new, m in plan)
if not (ok := await approve(f"Update {len(plan)} prices?\n{preview}")):
    return f"Cancelled: {ok.note or 'no reason given'}"

errors = []
for sku, *_, new, _m in plan:
    try:
        await update_product(sku, price=new)
    except (KeyError, ValueError) as e:
        errors.append(f"{sku}: {e!r}")

print(preview)
print(f"\nUpdated {len(plan) - len(errors)}/{len(plan)}")
for line in errors:
    print("ERROR", line)
