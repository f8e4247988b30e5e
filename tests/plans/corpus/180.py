# Request: Do a cohort analysis: customers by month of their first order and how many of them ordered again within 60 days
from collections import defaultdict
from datetime import date, timedelta

rows = await run_sql(
    "SELECT customer_id, DATE(created_at) AS d FROM orders WHERE status <> 'cancelled' ORDER BY customer_id, d"
)

orders_by_customer = defaultdict(list)
for row in rows:
    d = row["d"] if isinstance(row["d"], date) else date.fromisoformat(str(row["d"])[:10])
    orders_by_customer[row["customer_id"]].append(d)

cohorts = defaultdict(lambda: [0, 0])
for dates in orders_by_customer.values():
    first, *later = dates
    cohort = cohorts[first.strftime("%Y-%m")]
    cohort[0] += 1
    if any(d - first <= timedelta(days=60) for d in later):
        cohort[1] += 1

print("cohort   customers  returned  rate")
for month, (total, returned) in sorted(cohorts.items()):
    print(f"{month}  {total:>9}  {returned:>8}  {returned / total:>5.1%}")
