# Request: What's Maria's remaining vacation?
import asyncio

async def get_vacation_by_name(name: str) -> list[dict]:
    """Return the vacation balance of all employees with the given first name."""
    employees = await list_employees()
    matches = [e for e in employees if e["name"].lower().startswith(name.lower())]

    results = []
    for employee in matches:
        try:
            balance = await get_leave_balance(employee["id"])
            results.append({
                "name": employee["name"],
                "department": employee["department"],
                "vacation_days": balance.get("vacation", 0),
            })
        except Exception as e:
            results.append({"name": employee["name"], "error": str(e)})
    return results

async def main():
    results = await get_vacation_by_name("Maria")
    if not results:
        print("No employee named Maria found.")
    for r in results:
        if "error" in r:
            print(f"Could not get the balance of {r['name']}: {r['error']}")
        else:
            print(f"{r['name']} ({r['department']}): {r['vacation_days']} vacation days left")

asyncio.run(main())
