# Request: Reconcile the March 2025 transactions with the open invoices: match by invoice number in the reference, allow partial payments, and tell me what remains.
import re
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal


def cents(x) -> Decimal:
    return Decimal(str(x)).quantize(Decimal("0.01"))


@dataclass
class Ledger:
    number: str
    due: Decimal
    currency: str
    payments: list[Decimal] = field(default_factory=list)

    @property
    def rest(self):
        return self.due - sum(self.payments, Decimal())

    def __iadd__(self, amount):
        self.payments.append(amount)
        return self

    @property
    def state(self):
        return "paid" if self.rest == 0 else "overpaid" if self.rest < 0 else "partial" if self.payments else "open"


books = {i["number"]: Ledger(i["number"], cents(i["amount"]), i["currency"])
         for status in ("open", "overdue") for i in await list_invoices(status=status)}
unmatched = []
for tx in await list_transactions(since="2025-03-01", until="2025-03-31"):
    if tx["amount"] <= 0 or tx["kind"] == "fee":
        continue
    hits = [books[n] for n in dict.fromkeys(re.findall(r"[A-Z]*-?\d+(?:-\d+)*", tx["reference"].upper())) if n in books]
    hits = [h for h in hits if h.currency == tx["currency"]]
    left = cents(tx["amount"])
    for ledger in hits[:-1]:
        part = max(min(left, ledger.rest), Decimal())
        ledger += part
        left -= part
    if hits:
        hits[-1] += left
    else:
        unmatched.append(tx["id"])

groups = defaultdict(list)
for ledger in books.values():
    groups[ledger.state].append(ledger)
for state in ("paid", "partial", "overpaid", "open"):
    print(state.upper(), *(f"  {b.number}: {b.rest} {b.currency} of {b.due}" for b in groups[state]), sep="\n")
return {"unmatched": unmatched, **{s: len(g) for s, g in sorted(groups.items())}}
