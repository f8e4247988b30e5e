# Request: Which deals changed stage... well just those updated today; post a digest to #deals by stage
from itertools import groupby
from operator import itemgetter

today = now().date().isoformat()
changed = [d for d in await list_deals() if d["updated_at"].startswith(today)]
changed.sort(key=itemgetter("stage"))

parts = []
for stage, group in groupby(changed, key=itemgetter("stage")):
    deals = list(group)
    parts.append(f"*{stage.capitalize()}* ({len(deals)})")
    parts += [f"  • {d['name']} – {d['amount']:,.0f} {d['currency']} ({d['owner']})" for d in deals]

if parts:
    await post_message("#deals", "\n".join(parts))
    print("\n".join(parts))
else:
    print("No deals were updated today.")
