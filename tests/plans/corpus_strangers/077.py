# Request: Generate the payroll preview for June 2025 per department: monthly salary, minus unpaid leave days, plus approved expenses; write it as CSV.
import csv
import io
from collections import defaultdict
from datetime import date, timedelta

FIRST, LAST = date(2025, 6, 1), date(2025, 6, 30)


def workdays(a: date, b: date) -> int:
    return sum((a + timedelta(n)).weekday() < 5 for n in range((b - a).days + 1))


BASE = workdays(FIRST, LAST)
unpaid = defaultdict(int)
for lv in await list_leave(FIRST.isoformat(), LAST.isoformat()):
    if lv["kind"] == "unpaid" and lv["status"] == "approved":
        a, b = (date.fromisoformat(lv[k][:10]) for k in ("start", "end"))
        unpaid[lv["employee_id"]] += workdays(max(a, FIRST), min(b, LAST))

rates = {"EUR": 1.0}
claims = defaultdict(float)
for e in await list_expenses(status="approved", since=str(FIRST)):
    if not FIRST <= date.fromisoformat(e["date"][:10]) <= LAST:
        continue
    cur = e["currency"]
    claims[e["employee_id"]] += e["amount"] * (
        rates[cur] if cur in rates else rates.setdefault(cur, await get_exchange_rate(cur, "EUR", str(LAST))))

buffer = io.StringIO()
writer = csv.DictWriter(buffer, ["department", "name", "gross", "deduction", "expenses", "payout"], lineterminator="\n")
writer.writeheader()
sums = defaultdict(float)
for p in sorted(await list_employees(), key=lambda p: (p["department"], p["name"])):
    gross = p["salary"] / 12
    days = min(unpaid.get(p["id"], 0), BASE)
    row = dict(gross=gross, deduction=-gross * days / BASE, expenses=claims.get(p["id"], 0.0))
    row["payout"] = sum(row.values())
    sums[p["department"]] += row["payout"]
    writer.writerow({"department": p["department"], "name": p["name"]} | {k: f"{v:.2f}" for k, v in row.items()})

info = await write_document("/hr/payroll-2025-06.csv", buffer.getvalue(), overwrite=True)
print(f"{info['path']}, {BASE} working days")
return {d: round(s, 2) for d, s in sums.items()}
