# Request: Fix typos in ticket titles: "recieve" -> "receive", "seperate" -> "separate", "occured" -> "occurred". Just list which tickets are affected, since titles can't be edited
import re

TYPOS = {
    "recieve": "receive",
    "seperate": "separate",
    "occured": "occurred",
}
regex = re.compile("|".join(TYPOS), re.IGNORECASE)

affected = []
cursor = None
while True:
    page = await search_tickets(cursor=cursor)
    for t in page["tickets"]:
        fixed = regex.sub(lambda m: TYPOS[m.group(0).lower()], t["title"])
        if fixed != t["title"]:
            affected.append((t["id"], t["title"], fixed))
    cursor = page["next_cursor"]
    if cursor is None:
        break

return [{"id": tid, "title": old, "suggested": new} for tid, old, new in affected]
