# Request: What's the salary distribution by department (min, median, max, headcount)? Only departments with at least 3 people.
from collections import defaultdict
from statistics import median

salaries = defaultdict(list)
for emp in await list_employees():
    salaries[emp["department"]].append(emp["salary"])

table = [
    (dept, len(vals), min(vals), median(vals), max(vals))
    for dept, vals in salaries.items()
    if len(vals) >= 3
]
table.sort(key=lambda row: row[3], reverse=True)

width = max((len(d) for d, *_ in table), default=10)
print(f"{'Department':<{width}}  {'n':>4} {'min':>10} {'median':>10} {'max':>10}")
for dept, n, lo, med, hi in table:
    print(f"{dept:<{width}}  {n:>4} {lo:>10,.0f} {med:>10,.0f} {hi:>10,.0f}")

hidden = len(salaries) - len(table)
if hidden:
    print(f"({hidden} small department{'s' * (hidden > 1)} hidden for privacy)")
