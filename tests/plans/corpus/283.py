# Request: Give every open ticket without due date... there's no tool for due dates. So list those overdue (due < today) by assignee with days late
from collections import defaultdict
from datetime import date

today = date.today()
late = defaultdict(list)

for status in ("open", "in_progress"):
    cursor = None
    while True:
        page = await search_tickets(status=status, cursor=cursor)
        for t in page["tickets"]:
            if t["due"] is None:
                continue
            days = (today - date.fromisoformat(t["due"][:10])).days
            if days > 0:
                late[t["assignee"] or "(nobody)"].append((days, t["id"], t["title"]))
        cursor = page["next_cursor"]
        if not cursor:
            break

for assignee, items in sorted(late.items(), key=lambda kv: len(kv[1]), reverse=True):
    items.sort(reverse=True)
    print(f"{assignee}: {len(items)} late, worst {items[0][0]} days")
    for days, tid, title in items[:5]:
        print(f"    {days:>3}d  {tid}  {title}")
