# Request: Upgrade the priority of tickets from VIP customers (CRM tag vip) to at least high
import asyncio

PRIORITY_RANK = {"low": 0, "normal": 1, "high": 2, "urgent": 3}


async def tickets_with_status(status):
    tickets, cursor = [], None
    while True:
        page = await search_tickets(status=status, cursor=cursor)
        tickets += page["tickets"]
        if (cursor := page["next_cursor"]) is None:
            return tickets


async def main():
    vips, *ticket_lists = await asyncio.gather(
        search_contacts(tag="vip", limit=1000),
        *(tickets_with_status(s) for s in ("open", "in_progress", "waiting")),
    )
    vip_emails = {c["email"].lower() for c in vips if c["email"]}

    changed = []
    for ticket in (t for tickets in ticket_lists for t in tickets):
        if ticket["reporter"].lower() not in vip_emails:
            continue
        if PRIORITY_RANK[ticket["priority"]] >= PRIORITY_RANK["high"]:
            continue
        try:
            await update_ticket(ticket["id"], priority="high")
            changed.append(f"{ticket['id']} ({ticket['priority']} -> high)")
        except KeyError:
            print(f"Ticket {ticket['id']} no longer exists")

    return changed


changed = await main()
print(f"Changed {len(changed)} tickets", *changed, sep="\n")
