# Request: Detect unusual card payments in the main account for the first half of 2025: amounts beyond three median absolute deviations of the same counterparty, and exact duplicates within two days.
from collections import defaultdict
from datetime import date
from itertools import combinations
from statistics import median
from typing import NamedTuple


class Alert(NamedTuple):
    date: str
    kind: str
    counterparty: str
    amount: float
    detail: str = ""


txs = [t for t in await list_transactions(since="2025-01-01", until="2025-06-30") if t["kind"] == "charge"]
by_party: defaultdict[tuple[str, str], list] = defaultdict(list)
for t in txs:
    by_party[t["counterparty"], t["currency"]].append(t)


def outliers(items, k=3):
    amounts = [t["amount"] for t in items]
    mid = median(amounts)
    mad = median(abs(a - mid) for a in amounts)
    if not mad:
        return
    for t in items:
        if not -k * mad <= (off := t["amount"] - mid) <= k * mad:
            yield Alert(t["date"][:10], "outlier", t["counterparty"], t["amount"], f"median {mid:.2f}, off by {off:+.2f}")


def duplicates(items):
    for a, b in combinations(items, 2):
        days = (date.fromisoformat(b["date"][:10]) - date.fromisoformat(a["date"][:10])).days
        if a["amount"] == b["amount"] and 0 <= days <= 2:
            yield Alert(b["date"][:10], "duplicate", b["counterparty"], b["amount"], f"same as {a['id']}")


alerts: list[Alert] = []
for items in by_party.values():
    for check in (outliers, duplicates)[len(items) < 5:]:
        alerts.extend(check(items))
alerts.sort()

*head, = alerts[:20]
for a in head:
    print(f"{a.date} {a.kind:<9} {a.counterparty:<25.25} {a.amount:>10.2f}  {a.detail}")
if rest := alerts[len(head):]:
    print(f"... and {len(rest)} more")
if any(a.kind == "duplicate" for a in alerts):
    await create_ticket("Possible duplicate payments", "\n".join(map(repr, alerts)), labels=["finance"])
return {k: sum(a.kind == k for a in alerts) for k in ("outlier", "duplicate")}
