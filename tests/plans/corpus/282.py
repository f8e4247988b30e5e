# Request: Run these 3 SQL checks and report which ones fail: no orders without customer, no negative totals, no duplicate emails in customers
CHECKS = {
    "orders without customer": "SELECT COUNT(*) AS n FROM orders WHERE customer_id IS NULL",
    "negative totals": "SELECT COUNT(*) AS n FROM orders WHERE total < 0",
    "duplicate emails": "SELECT COUNT(*) AS n FROM (SELECT email FROM customers GROUP BY email HAVING COUNT(*) > 1) d",
}

failed = False
for name, query in CHECKS.items():
    try:
        result = await run_sql(query)
        n = result[0]["n"]
    except Exception as e:
        print(f"ERROR  {name}: {e}")
        failed = True
        continue
    if n == 0:
        print(f"OK     {name}")
    else:
        print(f"FAILED {name}: {n} rows")
        failed = True

print("\nSome checks failed." if failed else "\nAll checks passed.")
