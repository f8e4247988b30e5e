# Request: Which employees have the same manager as Peter Voss?
all_employees = await list_employees()
peter = next((e for e in all_employees if e["name"] == "Peter Voss"), None)

if peter is None:
    answer = "There is no employee named Peter Voss."
elif peter["manager_id"] is None:
    answer = "Peter Voss has no manager."
else:
    colleagues = [e["name"] for e in all_employees if e["manager_id"] == peter["manager_id"] and e["id"] != peter["id"]]
    answer = ", ".join(sorted(colleagues)) or "Nobody else."

answer
