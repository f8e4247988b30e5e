# Request: check which coupons were used in the last 30 days, how often, and how much revenue each brought
from dataclasses import dataclass
from datetime import date, timedelta


@dataclass
class CouponStats:
    uses: int = 0
    revenue: float = 0.0

    @property
    def average(self) -> float:
        return self.revenue / self.uses if self.uses else 0.0


stats: dict[str, CouponStats] = {}
since = (date.today() - timedelta(days=30)).isoformat()

page = 1
while True:
    result = await list_orders(since=since, page=page)
    for order in result["items"]:
        if order["coupon"]:
            s = stats.setdefault(order["coupon"], CouponStats())
            s.uses += 1
            s.revenue += order["total"]
    if page >= result["pages"]:
        break
    page += 1

for coupon, s in sorted(stats.items(), key=lambda kv: kv[1].revenue, reverse=True):
    print(f"{coupon:<15} {s.uses:>5}x {s.revenue:>12,.2f}  avg {s.average:.2f}")
