# Request: Import expenses from mail receipts: look in mails with subject "Receipt" for "Total: 12.34 EUR" and sum them per sender
import re
from collections import defaultdict
from decimal import Decimal

TOTAL_RE = re.compile(r"Total:?\s*(?P<amount>\d{1,3}(?:[.,]\d{3})*[.,]\d{2})\s*(?P<cur>EUR|USD|€|\$)", re.IGNORECASE)


def parse_amount(s: str) -> Decimal:
    # the last separator is the decimal one
    s = re.sub(r"[.,](?=\d{3}\b)", "", s)
    return Decimal(s.replace(",", "."))


sums = defaultdict(Decimal)
no_total = 0
for mail in await search_mail("subject:Receipt", limit=200):
    m = TOTAL_RE.search(mail["body"])
    if not m:
        no_total += 1
        continue
    cur = {"€": "EUR", "$": "USD"}.get(m["cur"], m["cur"].upper())
    sums[(mail["sender"], cur)] += parse_amount(m["amount"])

for (sender, cur), amount in sorted(sums.items()):
    print(f"{sender}: {amount} {cur}")
if no_total:
    print(f"({no_total} mails without a recognizable total)")
