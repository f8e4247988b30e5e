# Request: Import the leads from /imports/leads.csv into the CRM and skip the ones we already have
import csv
import io

files = await list_files("/imports")
source = next((f for f in files if f["name"] == "leads.csv"), None)
if source is None:
    raise FileNotFoundError("/imports/leads.csv does not exist")

text = await read_document(source["id"])
reader = csv.DictReader(io.StringIO(text))

existing = {c["email"].lower() for c in await search_contacts(limit=10000) if c["email"]}

new, duplicates, invalid = [], [], []
for row in reader:
    email = (row.get("email") or "").strip().lower()
    if "@" not in email:
        invalid.append(row)
        continue
    if email in existing:
        duplicates.append(email)
        continue
    existing.add(email)
    new.append({"name": row["name"].strip(), "email": email})

# There is no create_contact tool, so open one ticket for sales ops with the list
body = "\n".join(f"{n['name']} <{n['email']}>" for n in new)
ticket = await create_ticket(f"Import {len(new)} leads", body, labels=["crm-import"])

print(f"New: {len(new)} (ticket {ticket['id']}), duplicates: {len(duplicates)}, invalid: {len(invalid)}")
