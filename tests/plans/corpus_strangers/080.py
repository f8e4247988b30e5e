# Request: Summarise how long tickets labelled "incident" took until the first answer by someone else than the reporter: median, 90th percentile, worst, per priority.
import asyncio
import statistics
from datetime import datetime
from collections import defaultdict

parse = lambda s: datetime.fromisoformat(s.replace("Z", "+00:00"))
sem = asyncio.Semaphore(10)


async def fetch_all(label):
    found, cursor = [], None
    while True:
        page = await search_tickets(label=label, cursor=cursor)
        found[len(found):] = page["tickets"]
        if (cursor := page["next_cursor"]) is None:
            return found


async def first_answer(ticket):
    async with sem:
        comments = await list_ticket_comments(ticket["id"])
    for c in comments:
        if c["author"] != ticket["reporter"]:
            return (parse(c["created_at"]) - parse(ticket["created_at"])).total_seconds() / 3600
    return None


tickets = await fetch_all("incident")
hours = await asyncio.gather(*(first_answer(t) for t in tickets))
by_prio = defaultdict(list)
unanswered = []
for ticket, h in zip(tickets, hours):
    (unanswered if h is None else by_prio[ticket["priority"]]).append(ticket["id"] if h is None else h)

report = {}
for prio in ("urgent", "high", "normal", "low"):
    if not (data := sorted(by_prio.get(prio, ()))):
        continue
    p90 = statistics.quantiles(data, n=10, method="inclusive")[-1] if len(data) > 1 else data[0]
    report[prio] = {"n": len(data), "median": round(statistics.median(data), 2), "p90": round(p90, 2), "worst": round(data[-1], 2)}
    print(f"{prio:<7} n={len(data):<4} median {report[prio]['median']} h, p90 {p90:.2f} h, worst {data[-1]:.2f} h")
print(f"unanswered: {', '.join(sorted(unanswered)) or 'none'}")
return report
