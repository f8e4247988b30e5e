# Request: Get the latest refund transactions and tell me which counterparties got more than one
from collections import Counter
from datetime import date, timedelta

since = (date.today() - timedelta(days=90)).isoformat()
transactions = await list_transactions(since=since)
refunds = [t for t in transactions if t["kind"] == "refund"]
counts = Counter(t["counterparty"] for t in refunds)

{name: n for name, n in counts.most_common() if n > 1}
