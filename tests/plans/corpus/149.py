# Request: Set a reorder ticket for each low stock product unless one is already open
low = [p for p in await list_products() if p["stock"] <= p["reorder_level"]]

existing_titles = set()
cursor = None
while True:
    page = await search_tickets(label="reorder", status="open", cursor=cursor)
    existing_titles |= {t["title"] for t in page["tickets"]}
    cursor = page["next_cursor"]
    if not cursor:
        break

created = skipped = 0
for p in low:
    title = f"Reorder {p['sku']}"
    if title in existing_titles:
        skipped += 1
        continue
    await create_ticket(title, f"{p['title']}: {p['stock']} left (reorder level {p['reorder_level']})", labels=["reorder"])
    created += 1

return {"created": created, "skipped": skipped}
