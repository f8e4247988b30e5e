# Request: Send the weekly pipeline report to sales-leads@acme.com
import asyncio

STAGES = ["lead", "qualified", "proposal", "negotiation"]

results = await asyncio.gather(*(list_deals(stage=s) for s in STAGES))

rows = []
grand_total = 0
for stage, deals in zip(STAGES, results):
    amount = sum(d["amount"] for d in deals)
    grand_total += amount
    biggest = max(deals, key=lambda d: d["amount"]) if deals else None
    rows.append(
        f"{stage.title():<14}{len(deals):>4} deals {amount:>14,.0f}"
        + (f"   biggest: {biggest['name']}" if biggest else "")
    )

body = "Weekly pipeline report\n\n" + "\n".join(rows) + f"\n\nTotal: {grand_total:,.0f}"
mail_id = await send_mail("sales-leads@acme.com", f"Pipeline report {now():%d.%m.%Y}", body)
print(body)
print(f"\n(sent as {mail_id})")
