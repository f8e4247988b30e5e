# Request: for our investors: MRR, churn and active users of the last 6 months as a markdown table
import asyncio
from datetime import date

today = date.today()
first_of_month = today.replace(day=1)
year, month = first_of_month.year, first_of_month.month - 6
if month < 1:
    year, month = year - 1, month + 12
start = date(year, month, 1)

names = ["mrr", "churn_rate", "active_users"]
series = await asyncio.gather(*[
    get_metric(n, start.isoformat(), first_of_month.isoformat(), granularity="month") for n in names
])

table: dict[str, dict[str, float | None]] = {}
for name, points in zip(names, series):
    for p in points:
        table.setdefault(p["date"][:7], {})[name] = p["value"]


def fmt(v, spec):
    return "n/a" if v is None else format(v, spec)


md = ["| Month | MRR | Churn | Active users |", "|:--|--:|--:|--:|"]
for m in sorted(table):
    row = table[m]
    md.append(
        f"| {m} | {fmt(row.get('mrr'), ',.0f')} | {fmt(row.get('churn_rate'), '.2%')} | {fmt(row.get('active_users'), ',.0f')} |"
    )
print("\n".join(md))
