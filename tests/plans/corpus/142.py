# Request: allocate 500 EUR bonus budget to the support team proportionally to resolved tickets this month
from collections import Counter

BUDGET = 500
month = now().strftime("%Y-%m")

resolved = Counter()
cursor = None
done = False
while not done:
    page = await search_tickets(status="resolved", cursor=cursor)
    for t in page["tickets"]:
        if t["assignee"] and t["updated_at"].startswith(month):
            resolved[t["assignee"]] += 1
    cursor = page["next_cursor"]
    done = cursor is None

total = sum(resolved.values())
if total == 0:
    print("No resolved tickets this month.")
else:
    remaining = BUDGET
    shares = {}
    for name, n in resolved.most_common():
        share = int(BUDGET * n / total)
        shares[name] = share
        remaining -= share
    # rounding rest goes to the top performer
    top = next(iter(shares))
    shares[top] += remaining
    for name, share in shares.items():
        print(f"{name}: {share} EUR ({resolved[name]} tickets)")
