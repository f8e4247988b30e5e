# Request: give me a JSON with min, max, avg price and number of products per category
import json
from collections import defaultdict

prices = defaultdict(list)
for p in await list_products():
    prices[p["category"]].append(p["price"])

stats = {
    cat: {
        "count": len(ps),
        "min": min(ps),
        "max": max(ps),
        "avg": round(sum(ps) / len(ps), 2),
    }
    for cat, ps in sorted(prices.items())
}
print(json.dumps(stats, indent=2))
