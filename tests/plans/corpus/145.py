# Request: Which ones of the open deals have amounts more than 2 standard deviations above the mean?
import statistics

deals = [d for d in await list_deals() if d["stage"] not in ("won", "lost")]
amounts = [d["amount"] for d in deals]

mu = statistics.mean(amounts)
sigma = statistics.stdev(amounts)
outliers = [d for d in deals if d["amount"] > mu + 2 * sigma]

print(f"mean {mu:,.0f}, stdev {sigma:,.0f}")
for d in outliers:
    z = (d["amount"] - mu) / sigma
    print(f"{d['name']}: {d['amount']:,.0f} (z={z:.1f})")
