# Request: Collect all open tickets with the label "billing", cursor by cursor, and give me the ten oldest urgent or high ones as a priority queue.
import heapq
from enum import IntEnum


class Priority(IntEnum):
    URGENT = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3

    @classmethod
    def of(cls, ticket):
        return cls[ticket["priority"].upper()]


async def pages(**filters):
    cursor = None
    while True:
        page = await search_tickets(**filters, cursor=cursor)
        for ticket in page["tickets"]:
            yield ticket
        if not (cursor := page["next_cursor"]):
            return


heap, seen = [], set()
async for t in pages(label="billing", status="open"):
    if t["id"] in seen:
        continue
    seen.add(t["id"])
    if (prio := Priority.of(t)) <= Priority.HIGH:
        heapq.heappush(heap, (prio, t["created_at"], t["id"], t))

top = [heapq.heappop(heap) for _ in range(min(10, len(heap)))]
for rank, (prio, created, tid, ticket) in enumerate(top, 1):
    print(f"{rank:2}. [{prio.name.lower()}] {tid} {ticket['title']!r} since {created[:10]}, "
          f"{ticket['assignee'] or 'unassigned'}")
print(f"{len(heap)} more, {len(seen)} tickets seen in total")
return [tid for *_, tid, _ in top]
