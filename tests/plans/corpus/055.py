# Request: Compute each department's headcount and average salary, sorted by average salary
from collections import defaultdict

employees = await list_employees()

salaries_by_dept: dict[str, list[float]] = defaultdict(list)
for employee in employees:
    salaries_by_dept[employee["department"]].append(employee["salary"])

report = [
    {
        "department": dept,
        "headcount": len(salaries),
        "average_salary": round(sum(salaries) / len(salaries), 2),
    }
    for dept, salaries in salaries_by_dept.items()
]
report.sort(key=lambda r: r["average_salary"], reverse=True)

return report
