# Request: how much did we pay in fees each month this year?
from collections import defaultdict

year = now().year
fees = defaultdict(float)
for tx in await list_transactions(since=f"{year}-01-01"):
    if tx["kind"] == "fee":
        fees[tx["date"][:7]] += -tx["amount"]

{month: round(fee, 2) for month, fee in sorted(fees.items())}
