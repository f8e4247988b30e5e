# Request: Distribute the new leads (stage lead, owner "pool") to the reps so that everyone ends up with about the same number of open deals
import heapq

deals = await list_deals()
reps = ["amy@acme.com", "bob@acme.com", "cem@acme.com"]

load = {rep: 0 for rep in reps}
for d in deals:
    if d["owner"] in load and d["stage"] not in ("won", "lost"):
        load[d["owner"]] += 1

heap = [(n, rep) for rep, n in load.items()]
heapq.heapify(heap)

assigned = {rep: 0 for rep in reps}
for lead in (d for d in deals if d["owner"] == "pool" and d["stage"] == "lead"):
    n, rep = heapq.heappop(heap)
    await update_deal(lead["id"], owner=rep)
    assigned[rep] += 1
    heapq.heappush(heap, (n + 1, rep))

for rep in reps:
    print(f"{rep}: +{assigned[rep]} (now {load[rep] + assigned[rep]})")
