# Request: Assign the unassigned open tickets to the support agents, always to the one with the least load, urgent ones first, and not to people who are on leave on 2025-07-14.
import heapq
import itertools

DAY = "2025-07-14"
RANK = {p: i for i, p in enumerate(("urgent", "high", "normal", "low"))}
agents = await list_employees(department="Support")
absent = {lv["employee_id"] for lv in await list_leave(DAY, DAY) if lv["status"] == "approved"}


async def tickets(**kw):
    kw.setdefault("cursor", None)
    while True:
        page = await search_tickets(**kw)
        for t in page["tickets"]:
            yield t
        kw["cursor"] = page["next_cursor"]
        if not kw["cursor"]:
            break


load: list[list] = []
for agent in agents:
    if agent["id"] in absent:
        continue
    n = 0
    async for t in tickets(assignee=agent["email"]):
        n += t["status"] in ("open", "in_progress")
    load.append([n, agent["name"], agent["email"]])
if not load:
    return "Everybody is away"
heapq.heapify(load)

todo = [t async for t in tickets(status="open") if not t["assignee"]]
todo.sort(key=lambda t: (RANK[t["priority"]], t["due"] or "9999", t["created_at"]))
given: dict[str, list[str]] = {}
for t in todo:
    lightest = load[0]
    try:
        await update_ticket(t["id"], assignee=lightest[2])
    except KeyError:
        continue
    lightest[0] += 1 if RANK[t["priority"]] else 2
    heapq.heapreplace(load, lightest)
    given.setdefault(lightest[1], []).append(t["id"])

for n, group in itertools.groupby(sorted(load), key=lambda row: row[0]):
    print(f"load {n}: " + ", ".join(name for _, name, _ in group))
return dict(sorted(given.items()))
