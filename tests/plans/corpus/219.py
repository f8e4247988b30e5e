# Request: cut down the costs: list the 10 most expensive recurring vendors of the last 6 months (at least 3 payments)
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date, timedelta


@dataclass
class Vendor:
    name: str
    payments: list[float] = field(default_factory=list)

    @property
    def total(self) -> float:
        return sum(self.payments)

    @property
    def average(self) -> float:
        return self.total / len(self.payments)


since = (date.today() - timedelta(days=182)).isoformat()
vendors: dict[str, Vendor] = {}

for tx in await list_transactions(since=since):
    if tx["amount"] >= 0 or tx["kind"] == "fee":
        continue
    name = tx["counterparty"].strip().upper()
    vendors.setdefault(name, Vendor(name)).payments.append(-tx["amount"])

recurring = [v for v in vendors.values() if len(v.payments) >= 3]
recurring.sort(key=lambda v: v.total, reverse=True)

print(f"{'Vendor':<30}{'n':>4}{'avg':>12}{'total':>14}")
for v in recurring[:10]:
    print(f"{v.name[:29]:<30}{len(v.payments):>4}{v.average:>12,.2f}{v.total:>14,.2f}")
