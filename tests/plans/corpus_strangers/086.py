# Request: Offboard tom@acme.example: hand over his deals to his manager, reassign his tickets, share his files with the manager, cancel his future meetings from 2025-07-01. Every step must run even if another one fails.
import asyncio

WHO, FROM = "tom@acme.example", "2025-07-01"
tom = await get_employee(WHO)
if tom is None:
    return f"{WHO} is unknown"
boss = await get_employee(tom["manager_id"]) if tom["manager_id"] else None
if boss is None:
    return "Tom has no manager, please tell me who takes over"
heir = boss["email"]
done = {"deals": 0, "tickets": 0, "files": 0, "meetings": 0}


async def deals():
    for d in await list_deals(owner=WHO):
        if d["stage"] not in {"won", "lost"}:
            await update_deal(d["id"], owner=heir)
            done["deals"] += 1


async def tickets():
    cursor, first = None, True
    while first or cursor:
        first = False
        page = await search_tickets(assignee=WHO, cursor=cursor)
        for t in (t for t in page["tickets"] if t["status"] not in ("closed", "resolved")):
            await update_ticket(t["id"], assignee=heir)
            await add_ticket_comment(t["id"], f"Handed over from {tom['name']} to {boss['name']}", internal=True)
            done["tickets"] += 1
        cursor = page["next_cursor"]


async def files():
    links = [await share_file(f["id"], heir, "editor")
             for f in await list_files("/", recursive=True)
             if f["owner"] == WHO and heir not in f["shared_with"]]
    done["files"] += len(links)


async def meetings():
    for e in await list_events(WHO, FROM, "2026-07-01"):
        if e["organizer"] == WHO:
            await delete_event(e["id"])
            done["meetings"] += 1


steps = (deals, tickets, files, meetings)
results = await asyncio.gather(*(step() for step in steps), return_exceptions=True)
errors = {s.__name__: f"{type(r).__name__}: {r}" for s, r in zip(steps, results) if isinstance(r, Exception)}
await send_mail(heir, f"Handover from {tom['name']}", "\n".join(f"{k}: {v}" for k, v in done.items()))
return done | {"errors": errors}
