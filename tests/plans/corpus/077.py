# Request: Export all the tickets labelled "bug" as JSON with id, title, priority, age in days
import json
from datetime import datetime, timezone

current = datetime.now(timezone.utc)
output = []
cursor = None
has_more = True

while has_more:
    page = await search_tickets(label="bug", cursor=cursor)
    for t in page["tickets"]:
        created = datetime.fromisoformat(t["created_at"].replace("Z", "+00:00"))
        output.append({
            "id": t["id"],
            "title": t["title"],
            "priority": t["priority"],
            "age_days": (current - created).days,
        })
    cursor = page["next_cursor"]
    has_more = cursor is not None

print(json.dumps(output, indent=2, ensure_ascii=False))
