# Request: Set everything up for offboarding of employee e_88: list what he owns: tickets, deals, files, PRs; reassign tickets to his manager
import asyncio

emp = await get_employee("e_88")
if emp is None:
    return "Employee e_88 not found."
if not emp["manager_id"]:
    return f"{emp['name']} has no manager to take over."

manager = await get_employee(emp["manager_id"])
handle = emp["email"].split("@")[0]
manager_handle = manager["email"].split("@")[0]

tickets, deals, files = await asyncio.gather(
    search_tickets(assignee=handle),
    list_deals(owner=emp["email"]),
    list_files("/", recursive=True),
)
active = [t for t in tickets["tickets"] if t["status"] not in ("resolved", "closed")]
open_deals = [d for d in deals if d["stage"] not in ("won", "lost")]
owned = [f for f in files if f["owner"] == emp["email"]]

print(f"Offboarding {emp['name']}")
print(f"  active tickets: {len(active)}")
print(f"  open deals:     {len(open_deals)}")
print(f"  files:          {len(owned)} ({sum(f['size'] for f in owned) / 1e6:.0f} MB)")

if active and await approve(f"Reassign {len(active)} tickets from {emp['name']} to {manager['name']}?"):
    await asyncio.gather(*[update_ticket(t["id"], assignee=manager_handle) for t in active])
    print("Tickets reassigned.")
