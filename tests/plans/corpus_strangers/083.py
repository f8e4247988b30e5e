# Request: Clean my calendar for the week of 2025-08-11: of the overlapping meetings I organise delete the one with fewer attendees, and merge the back-to-back ones with the same title.
from datetime import datetime

ME = "lena@acme.example"
events = [e for e in await list_events(ME, "2025-08-11", "2025-08-16") if e["response"] != "declined"]
ts = datetime.fromisoformat
actions: list[str] = []


def overlap(a, b):
    return ts(a["start"]) < ts(b["end"]) and ts(b["start"]) < ts(a["end"])


i = 0
while i < len(events):
    for j in range(i + 1, len(events)):
        pair = events[i], events[j]
        mine = [e for e in pair if e["organizer"] == ME]
        if overlap(*pair) and mine:
            break
    else:
        i += 1
        continue
    loser = min(mine, key=lambda e: (len(e["attendees"]), e["id"]))
    try:
        await delete_event(loser["id"], notify=len(loser["attendees"]) > 1)
    except KeyError:
        actions.append(f"{loser['title']} was gone already")
    else:
        actions.append(f"deleted {loser['title']} ({loser['start'][:16]})")
    del events[i if loser is events[i] else j]

merged: list[dict] = []
for event in events:
    if merged and (last := merged[-1])["title"] == event["title"] and last["end"] == event["start"] \
            and last["organizer"] == ME == event["organizer"]:
        last.update(await update_event(last["id"], end=event["end"]))
        await delete_event(event["id"], notify=False)
        actions.append(f"merged two {event['title']!r} until {event['end'][11:16]}")
    else:
        merged.append(event)
hours = sum((ts(e["end"]) - ts(e["start"])).total_seconds() for e in merged) / 3600
print(*actions or ["nothing to do"], sep="\n")
return f"{len(merged)} meetings, {hours:.1f} hours"
