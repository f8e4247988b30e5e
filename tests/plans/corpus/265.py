# Request: run a bulk price update from ticket T-120: its description has lines like "A-100: 19.99". Validate, show me the diff, update after ok.
import re

ticket = await get_ticket("T-120")
if ticket is None:
    return "Ticket T-120 not found."

changes, errors = [], []
for raw in ticket["description"].splitlines():
    line = raw.strip()
    if not line or ":" not in line:
        continue
    m = re.fullmatch(r"([A-Z]+-\d+)\s*:\s*(\d+(?:\.\d{1,2})?)", line)
    if not m:
        errors.append(f"cannot parse '{line}'")
        continue
    sku, price = m.group(1), float(m.group(2))
    product = await get_product(sku)
    if product is None:
        errors.append(f"unknown SKU {sku}")
    elif price < product["cost"]:
        errors.append(f"{sku}: new price {price:.2f} is below cost {product['cost']:.2f}")
    elif price != product["price"]:
        changes.append((product, price))

if errors:
    await add_ticket_comment("T-120", "Problems in the price list:\n" + "\n".join(f"- {e}" for e in errors))
    return {"errors": errors}

if not changes:
    return "All prices are up to date already."

diff = "\n".join(f"{p['sku']} {p['title']}: {p['price']:.2f} -> {new:.2f} ({(new / p['price'] - 1) * 100:+.1f}%)" for p, new in changes)
approval = await approve(f"Update {len(changes)} prices?\n{diff}")
if not approval:
    await add_ticket_comment("T-120", f"Price update was declined. {approval.note or ''}")
    return "Declined."

for p, new in changes:
    await update_product(p["sku"], price=new)
await update_ticket("T-120", status="resolved")
return f"Updated {len(changes)} prices:\n{diff}"
