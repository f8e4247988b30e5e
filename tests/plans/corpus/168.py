# Request: Look at last month's transactions and find possible duplicate payments (same counterparty, same amount, within 3 days)
from collections import defaultdict
from datetime import date, timedelta


def last_month() -> tuple[date, date]:
    """First day of the last month and first day of the current month."""
    end = date.today().replace(day=1)
    start = (end - timedelta(days=1)).replace(day=1)
    return start, end


def find_duplicates(transactions: list[dict], max_days: int = 3) -> list[tuple[dict, dict]]:
    groups: dict[tuple[str, float], list[dict]] = defaultdict(list)
    for tx in transactions:
        if tx["amount"] < 0:
            groups[(tx["counterparty"], tx["amount"])].append(tx)

    pairs = []
    for txs in groups.values():
        txs.sort(key=lambda t: t["date"])
        for a, b in zip(txs, txs[1:]):
            gap = date.fromisoformat(b["date"][:10]) - date.fromisoformat(a["date"][:10])
            if gap <= timedelta(days=max_days):
                pairs.append((a, b))
    return pairs


start, end = last_month()
txs = await list_transactions(since=start.isoformat(), until=end.isoformat())
pairs = find_duplicates(txs)

for a, b in pairs:
    print(f"{a['counterparty']}: {-a['amount']:.2f} {a['currency']} on {a['date'][:10]} and {b['date'][:10]}")
print(f"{len(pairs)} possible duplicates among {len(txs)} transactions")
