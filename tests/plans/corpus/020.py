# Request: Which tables in the warehouse contain an email column? We need this for the GDPR audit.
tables = await list_tables()
found: dict[str, list[str]] = {}

for table in tables:
    columns = await describe_table(table)
    matches = [c["name"] for c in columns if "email" in c["name"].lower() or "mail" == c["name"].lower()]
    if matches:
        found[table] = matches

return {
    "tables_checked": len(tables),
    "tables_with_email": found,
}
