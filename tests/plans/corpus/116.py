# Request: post the top 3 sellers (salespeople) by won amount this quarter to #sales
from collections import defaultdict

today = now().date()
q_start_month = (today.month - 1) // 3 * 3 + 1
q_start = today.replace(month=q_start_month, day=1).isoformat()

won = await list_deals(stage="won")
totals = defaultdict(float)
for d in won:
    if d["close_date"] and d["close_date"] >= q_start:
        totals[d["owner"]] += d["amount"]

medals = ["🥇", "🥈", "🥉"]
top = sorted(totals, key=totals.get, reverse=True)[:3]
text = "\n".join(f"{medal} {owner}: {totals[owner]:,.0f}" for medal, owner in zip(medals, top))
await post_message("#sales", f"Top sellers this quarter:\n{text}")
text
