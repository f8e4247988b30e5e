# Request: Escalate urgent tickets that nobody touched in the last 24 hours, and reassign unassigned ones to whoever of ann, bob, cho has the fewest.
import heapq
from datetime import datetime, timedelta

TEAM = ["ann", "bob", "cho"]
deadline = now() - timedelta(hours=24)


async def collect(**kw):
    tickets, cursor = [], None
    while True:
        page = await search_tickets(**kw, cursor=cursor)
        tickets += page["tickets"]
        if (cursor := page["next_cursor"]) is None:
            return tickets


load = [(len(await collect(assignee=member, status="in_progress")), member) for member in TEAM]
heapq.heapify(load)


def take_least_busy() -> str:
    n, member = load[0]
    heapq.heapreplace(load, (n + 1, member))
    return member


log = []
for t in await collect(status="open"):
    if t["priority"] != "urgent":
        continue
    if datetime.fromisoformat(t["updated_at"].replace("Z", "+00:00")) > deadline:
        continue
    assignee = t["assignee"] or take_least_busy()
    try:
        await update_ticket(t["id"], assignee=assignee, labels=list(dict.fromkeys(t["labels"] + ["escalated"])))
        await add_ticket_comment(t["id"], f"Escalated: no activity for 24 h. @{assignee}, please have a look.", internal=True)
    except KeyError:
        log.append(f"{t['id']}: vanished meanwhile")
    else:
        log.append(f"{t['id']}: {t['title']} -> {assignee}{'' if t['assignee'] else ' (new)'}")

print("\n".join(log) if log else "Nothing to escalate.")
