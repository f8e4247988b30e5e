# Request: what tables exist in schema "sales" and how many rows does each one have?
tables = await list_tables("sales")
counts = {}
for t in tables:
    rows = await run_sql(f"SELECT COUNT(*) AS n FROM sales.{t}")
    counts[t] = rows[0]["n"]

dict(sorted(counts.items(), key=lambda x: x[1], reverse=True))
