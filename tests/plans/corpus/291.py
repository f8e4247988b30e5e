# Request: what's the total salary cost per location, in thousand EUR, with share in %
employees = await list_employees()

locations = {e["location"] for e in employees}
costs = {loc: sum(e["salary"] for e in employees if e["location"] == loc) for loc in locations}
total = sum(costs.values())

return [
    {
        "location": loc,
        "cost_k_eur": round(cost / 1000, 1),
        "share_percent": round(100 * cost / total, 1),
    }
    for loc, cost in sorted(costs.items(), key=lambda kv: kv[1], reverse=True)
]
