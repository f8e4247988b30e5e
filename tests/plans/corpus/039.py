# Request: Make a CSV of all customers in Germany with their last order date
import csv
import io

contacts = await search_contacts(country="DE", limit=1000)

# Collect last order dates from the warehouse in one go
emails = [c["email"] for c in contacts if c["email"]]
rows = await run_sql(
    "SELECT customer_email, MAX(created_at) AS last_order FROM orders WHERE customer_email = ANY(%s) GROUP BY customer_email",
    [emails],
)
last_order = {r["customer_email"]: r["last_order"] for r in rows}

buffer = io.StringIO()
writer = csv.writer(buffer)
writer.writerow(["name", "email", "company", "last_order"])
for c in sorted(contacts, key=lambda c: c["name"].lower()):
    writer.writerow([c["name"], c["email"] or "", c["company"] or "", str(last_order.get(c["email"], ""))[:10]])

info = await write_document("/exports/customers_de.csv", buffer.getvalue(), overwrite=True)
return {"path": info["path"], "rows": len(contacts)}
