# Request: Give me a table of monthly revenue for this and last year with the year over year growth
from datetime import date

this_year = date.today().year
rows = await run_sql(
    "SELECT EXTRACT(YEAR FROM created_at) AS y, EXTRACT(MONTH FROM created_at) AS m, SUM(total) AS revenue "
    "FROM orders WHERE EXTRACT(YEAR FROM created_at) >= %s AND status NOT IN ('cancelled', 'refunded') "
    "GROUP BY 1, 2 ORDER BY 1, 2",
    [this_year - 1],
)

data = {(int(r["y"]), int(r["m"])): float(r["revenue"]) for r in rows}

print(f"Month   {this_year - 1:>12} {this_year:>12}   YoY")
for month in range(1, 13):
    prev = data.get((this_year - 1, month))
    cur = data.get((this_year, month))
    if prev is None and cur is None:
        continue
    growth = f"{(cur - prev) / prev:+.1%}" if prev and cur else "-"
    print(f"{month:>5}   {prev or 0:>12,.0f} {cur or 0:>12,.0f}   {growth}")
