# Request: wait until the finance team confirms ("budget_confirmed" event) and then create the hiring tickets for the roles in the payload
payload = await wait_for("budget_confirmed")
roles = payload.get("roles", [])

if not roles:
    print("Budget confirmed, but no roles given.")

for role in roles:
    title = role["title"] if isinstance(role, dict) else str(role)
    count = role.get("count", 1) if isinstance(role, dict) else 1
    for n in range(count):
        suffix = f" ({n + 1}/{count})" if count > 1 else ""
        ticket = await create_ticket(f"Hire: {title}{suffix}", "Budget was confirmed.", labels=["hiring"])
        print(ticket["id"], ticket["title"])
