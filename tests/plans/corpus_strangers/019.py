# Request: Give me a pipeline report: total deal value by stage and by owner, weighted by stage probability, in USD.
from collections import defaultdict

PROBABILITY = {"lead": 0.05, "qualified": 0.2, "proposal": 0.4, "negotiation": 0.7}

rates: dict[str, float] = {"USD": 1}
pivot: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
problems = set()

for deal in await list_deals():
    stage = deal["stage"]
    if stage not in PROBABILITY:
        continue
    cur = deal["currency"]
    if cur not in rates:
        try:
            rates[cur] = await get_exchange_rate(cur, "USD")
        except ValueError:
            problems.add(cur)
            continue
    pivot[deal["owner"]][stage] += deal["amount"] * rates[cur]

stages = list(PROBABILITY)
header = f"{'owner':<18}" + "".join(f"{s:>14}" for s in stages) + f"{'weighted':>14}"
print(header)
print("-" * len(header))

grand = dict.fromkeys(stages, 0.0)
for owner, row in sorted(pivot.items(), key=lambda kv: sum(kv[1].values()), reverse=True):
    weighted = sum(row[s] * p for s, p in PROBABILITY.items())
    print(f"{owner:<18}" + "".join(f"{row[s]:>14,.0f}" for s in stages) + f"{weighted:>14,.0f}")
    for s in stages:
        grand[s] += row[s]

print("-" * len(header))
print(f"{'total':<18}" + "".join(f"{grand[s]:>14,.0f}" for s in stages) + f"{sum(grand[s] * PROBABILITY[s] for s in stages):>14,.0f}")
if problems:
    print(f"Skipped deals in unknown currencies: {', '.join(sorted(problems))}")
