# Request: Find meetings of mine tomorrow that overlap and suggest which one to decline.
from datetime import datetime, timedelta
from itertools import combinations

tomorrow = now().date() + timedelta(days=1)
events = await list_events("me@acme.com", str(tomorrow), str(tomorrow + timedelta(days=1)))
active = [e for e in events if e["response"] != "declined"]


def span(e):
    return datetime.fromisoformat(e["start"]), datetime.fromisoformat(e["end"])


def overlaps(a, b):
    (s1, e1), (s2, e2) = span(a), span(b)
    return s1 < e2 and s2 < e1


def importance(e):
    score = 0
    score += 5 if e["organizer"] == "me@acme.com" else 0
    score += {"accepted": 3, "tentative": 1}.get(e["response"], 0)
    score -= 2 if e["recurring"] else 0
    score += 2 if any(not a.endswith("@acme.com") for a in e["attendees"]) else 0
    return score


conflicts = [(a, b) for a, b in combinations(active, 2) if overlaps(a, b)]
if not conflicts:
    return f"No conflicts on {tomorrow:%A}."

for a, b in conflicts:
    keep, drop = sorted((a, b), key=importance, reverse=True)
    print(f"⚡ {a['title']} ({a['start'][11:16]}–{a['end'][11:16]}) overlaps {b['title']} ({b['start'][11:16]}–{b['end'][11:16]})")
    print(f"   keep “{keep['title']}” and decline “{drop['title']}”")
