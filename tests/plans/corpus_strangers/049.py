# Request: Calculate the running balance of our main account for the last 30 days and warn me if it dips below 10,000 EUR.
from datetime import timedelta, date
from itertools import accumulate, groupby

end = now().date()
start = end - timedelta(days=30)
transactions = [t for t in await list_transactions(since=start.isoformat()) if t["currency"] == "EUR"]
current = (await get_balance()).get("EUR", 0.0)

net = {day: sum(t["amount"] for t in group) for day, group in groupby(transactions, key=lambda t: t["date"][:10])}
days = [(start + timedelta(days=i)).isoformat() for i in range(31)]
opening = current - sum(net.values())
balances = dict(zip(days, list(accumulate((net.get(d, 0.0) for d in days), initial=opening))[1:]))

lowest_day = min(balances, key=balances.get)
dips = [d for d, b in balances.items() if b < 10_000]
link = await create_chart("Balance (EUR)", "line", days, [round(balances[d], 2) for d in days])

biggest_out = sorted((t for t in transactions if t["amount"] < 0), key=lambda t: t["amount"])[:5]
print(f"Opening {opening:,.2f}, now {current:,.2f}, lowest {balances[lowest_day]:,.2f} on {date.fromisoformat(lowest_day):%d %B}")
for t in biggest_out:
    print(f"  {t['date'][:10]} {t['amount']:>12,.2f} {t['counterparty']}")
print(link)
if dips:
    await post_message("@me", f"⚠️ The main account was below 10,000 EUR on {len(dips)} day(s): {', '.join(dips)}")
