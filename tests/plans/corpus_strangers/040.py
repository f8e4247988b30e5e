# Request: Import the contacts from my document "leads.csv": update existing ones with the tag "expo25" and list the rest.
import csv
import io

hits = [f for f in await search_files("leads.csv") if f["name"] == "leads.csv"]
if not hits:
    return "I could not find leads.csv."
latest = max(hits, key=lambda f: f["modified_at"])

reader = csv.DictReader(io.StringIO(await read_document(latest["id"])))
missing_cols = {"name", "email"} - {(c or "").strip().lower() for c in reader.fieldnames or []}
if missing_cols:
    return f"leads.csv lacks the columns {', '.join(sorted(missing_cols))}"

updated, unknown, invalid = [], [], []
for lineno, row in enumerate(reader, start=2):
    row = {k.strip().lower(): (v or "").strip() for k, v in row.items() if k}
    email = row["email"].lower()
    if "@" not in email:
        invalid.append(lineno)
        continue
    match = next((c for c in await search_contacts(email) if (c["email"] or "").lower() == email), None)
    if match is None:
        unknown.append(f"{row['name']} <{email}>")
        continue
    fields = {"tags": sorted({*match["tags"], "expo25"})}
    if not match["phone"] and row.get("phone"):
        fields["phone"] = row["phone"]
    await update_contact(match["id"], fields)
    await add_crm_note(match["id"], f"Met at Expo 2025. {row.get('notes', '')}".rstrip())
    updated.append(match["name"])

print(f"Updated {len(updated)}: {', '.join(updated)}")
print(f"Not in the CRM ({len(unknown)}):", *unknown, sep="\n  ")
if invalid:
    print(f"Invalid addresses in lines {invalid}")
