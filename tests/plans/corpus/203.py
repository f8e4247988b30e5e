# Request: Calculate the weighted pipeline: lead 10%, qualified 25%, proposal 50%, negotiation 75%
WEIGHTS = {"lead": 0.10, "qualified": 0.25, "proposal": 0.50, "negotiation": 0.75}

deals = await list_deals()
weighted = {}
for d in deals:
    w = WEIGHTS.get(d["stage"])
    if w is None:
        continue
    weighted[d["stage"]] = weighted.get(d["stage"], 0) + d["amount"] * w

total = sum(weighted.values())
{**{k: round(v, 2) for k, v in weighted.items()}, "total": round(total, 2)}
