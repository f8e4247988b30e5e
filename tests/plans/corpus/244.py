# Request: Check the integrity of employees data: missing managers, cycles in the manager chain, people without department
employees = await list_employees()
by_id = {e["id"]: e for e in employees}

problems = []

for e in employees:
    if not e["department"]:
        problems.append(f"{e['name']} has no department")
    if e["manager_id"] and e["manager_id"] not in by_id:
        problems.append(f"{e['name']}'s manager {e['manager_id']} does not exist or is inactive")

    # follow the chain of managers
    seen = {e["id"]}
    current = e
    while current["manager_id"] and current["manager_id"] in by_id:
        current = by_id[current["manager_id"]]
        if current["id"] in seen:
            problems.append(f"Cycle in the manager chain of {e['name']}")
            break
        seen.add(current["id"])

roots = [e["name"] for e in employees if e["manager_id"] is None]
if len(roots) != 1:
    problems.append(f"Expected exactly one person without manager, found {len(roots)}: {', '.join(roots)}")

print("\n".join(problems) if problems else "No problems found.")
