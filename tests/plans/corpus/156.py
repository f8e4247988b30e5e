# Request: sync the stock with the CSV in /warehouse/stock.csv (sku;qty). Report unknown SKUs.
files = await list_files("/warehouse")
stock_file = [f for f in files if f["name"] == "stock.csv"][0]
content = await read_document(stock_file["id"])

updated, unchanged, unknown, bad_lines = 0, 0, [], []

for i, line in enumerate(content.strip().split("\n")):
    if i == 0 and line.lower().startswith("sku"):
        continue  # header
    parts = [p.strip() for p in line.split(";")]
    if len(parts) != 2 or not parts[1].isdigit():
        bad_lines.append((i + 1, line))
        continue
    sku, qty = parts[0], int(parts[1])
    product = await get_product(sku)
    if product is None:
        unknown.append(sku)
    elif product["stock"] == qty:
        unchanged += 1
    else:
        await update_product(sku, stock=qty)
        updated += 1

print(f"Updated: {updated}, unchanged: {unchanged}")
if unknown:
    print("Unknown SKUs:", ", ".join(unknown))
for no, line in bad_lines:
    print(f"Bad line {no}: {line}")
