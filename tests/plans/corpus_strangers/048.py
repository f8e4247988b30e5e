# Request: Which words do our customers use most in support tickets about "refund"? Top 25, without stop words.
import asyncio
import re
import string
from collections import Counter

STOP = set("""a an and are as at be been but by can could do for from had has have hello hi i if in is it its
me my no not of on or our please so that the their them they this to was we were what when which will with would you your""".split())
WORD = re.compile(r"[a-z][a-z'-]{2,}")

tickets = []
cursor = None
for _ in range(10):  # at most 500 tickets
    page = await search_tickets("refund", cursor=cursor)
    tickets.extend(page["tickets"])
    cursor = page["next_cursor"]
    if cursor is None:
        break


async def text_of(ticket):
    comments = await list_ticket_comments(ticket["id"])
    own = (c["text"] for c in comments if c["author"] == ticket["reporter"])
    return " ".join([ticket["title"], ticket["description"], *own])


counter = Counter()
docs = Counter()
CHUNK = 20
for i in range(0, len(tickets), CHUNK):
    for text in await asyncio.gather(*map(text_of, tickets[i:i + CHUNK])):
        words = [w.strip(string.punctuation) for w in WORD.findall(text.lower())]
        words = [w for w in words if w not in STOP]
        counter.update(words)
        docs.update(set(words))

print(f"{len(tickets)} tickets, {counter.total()} words, {len(counter)} distinct")
for rank, (word, n) in enumerate(counter.most_common(25), 1):
    print(f"{rank:>2}. {word:<20} {n:>5}  in {docs[word] / len(tickets):.0%} of tickets")
