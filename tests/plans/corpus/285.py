# Request: Check whether all vendors in the last month's outgoing payments are in our approved vendor list (/finance/approved_vendors.txt)
from datetime import date, timedelta

vendor_files = [f for f in await list_files("/finance") if f["name"] == "approved_vendors.txt"]
if not vendor_files:
    raise SystemExit("approved_vendors.txt is missing")

approved = {line.strip().lower() for line in (await read_document(vendor_files[0]["id"])).splitlines() if line.strip() and not line.startswith("#")}

first_of_month = date.today().replace(day=1)
prev_month = (first_of_month - timedelta(days=1)).replace(day=1)
txs = await list_transactions(since=prev_month.isoformat(), until=first_of_month.isoformat())

unapproved = {}
for t in txs:
    if t["amount"] >= 0 or t["kind"] == "fee":
        continue
    name = t["counterparty"].lower()
    if not any(a in name or name in a for a in approved):
        unapproved[t["counterparty"]] = unapproved.get(t["counterparty"], 0.0) + abs(t["amount"])

if unapproved:
    await create_ticket(
        f"{len(unapproved)} payments to unapproved vendors in {prev_month:%B}",
        "\n".join(f"- {v}: {amt:,.2f}" for v, amt in sorted(unapproved.items(), key=lambda x: -x[1])),
        priority="high",
        labels=["compliance"],
    )
print(f"{len(unapproved)} unapproved vendors: {', '.join(unapproved) or '-'}")
