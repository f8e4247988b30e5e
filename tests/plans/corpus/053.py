# Request: Remind everyone who hasn't answered the invitation of event "All hands" next week. I am the organizer hr@acme.com
from datetime import date, timedelta

monday = date.today() + timedelta(days=7 - date.today().weekday())
sunday = monday + timedelta(days=7)

own = await list_events("hr@acme.com", monday.isoformat(), sunday.isoformat())
all_hands = [e for e in own if e["title"].lower() == "all hands"]
if not all_hands:
    print("There is no event 'All hands' next week.")
    exit()

event = all_hands[0]
reminded = []
for person in event["attendees"]:
    theirs = await list_events(person, event["start"][:10], (date.fromisoformat(event["start"][:10]) + timedelta(days=1)).isoformat())
    copy = next((e for e in theirs if e["title"] == event["title"] and e["start"] == event["start"]), None)
    if copy is None or copy["response"] == "none":
        await send_mail(
            person,
            "Please respond: All hands",
            f"Hi,\n\nplease accept or decline the All hands on {event['start'].replace('T', ' at ')}.\n\nThanks!",
        )
        reminded.append(person)

print(f"Reminded {len(reminded)} of {len(event['attendees'])} people.")
