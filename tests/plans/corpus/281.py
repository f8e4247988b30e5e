# Request: Find keywords in ticket titles: the 15 most common words excluding stop words
import re
from collections import Counter

STOP = set("a an the in on of to for and or is are not when with from by at it be can does doesn't cannot".split())

words = Counter()
cursor = None
pages = 0
while pages < 20:  # limit to 1000 tickets
    page = await search_tickets(cursor=cursor)
    for t in page["tickets"]:
        words.update(w for w in re.findall(r"[a-z][a-z'-]+", t["title"].lower()) if w not in STOP and len(w) > 2)
    pages += 1
    cursor = page["next_cursor"]
    if not cursor:
        break

return words.most_common(15)
