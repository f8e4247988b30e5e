# Request: what are the columns of table customers?
columns = await describe_table("customers")
width = max(len(c["name"]) for c in columns)
for c in columns:
    null = "" if c["nullable"] == "no" else " (nullable)"
    print(f"{c['name'].ljust(width)}  {c['type']}{null}")
