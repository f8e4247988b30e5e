# Request: Notify each account owner about contacts they haven't contacted in the last half year
from collections import defaultdict
from datetime import datetime, timedelta

half_year_ago = datetime.now() - timedelta(days=182)
contacts = await search_contacts(limit=2000)

neglected = defaultdict(list)
for c in contacts:
    last = c["last_contacted"]
    if last is None or datetime.fromisoformat(last[:10]) < half_year_ago:
        neglected[c["owner"]].append(c)

for owner, items in neglected.items():
    lines = [
        f"- {c['name']}" + (f", {c['company']}" if c["company"] else "") + f" (last: {(c['last_contacted'] or 'never')[:10]})"
        for c in items[:25]
    ]
    if len(items) > 25:
        lines.append(f"... and {len(items) - 25} more")
    await send_mail(owner, f"{len(items)} contacts need attention", "\n".join(lines))

print(f"Notified {len(neglected)} owners about {sum(map(len, neglected.values()))} contacts.")
