# Request: Charge all open invoices of customers with stored card tagged "autopay", handle failures
import asyncio

autopay = await search_contacts(tag="autopay", limit=500)
succeeded, failed = [], []


async def charge_with_retry(invoice, retries=3):
    """Charge one invoice. The idempotency key makes the retry safe."""
    delay = 1.0
    for attempt in range(retries):
        try:
            return await charge_customer(
                invoice["customer_id"],
                invoice["amount"],
                currency=invoice["currency"],
                description=f"Invoice {invoice['number']}",
                idempotency_key=f"inv-{invoice['id']}",
            )
        except ConnectionError:
            if attempt == retries - 1:
                return {"status": "failed", "failure_reason": "gateway not reachable"}
            await asyncio.sleep(delay)
            delay *= 2


for contact in autopay:
    for invoice in await list_invoices(status="open", customer_id=contact["id"]):
        outcome = await charge_with_retry(invoice)
        if outcome["status"] == "succeeded":
            succeeded.append(invoice)
        else:
            failed.append((invoice, outcome["failure_reason"]))

print(f"Charged {len(succeeded)} invoices, total {sum(i['amount'] for i in succeeded):.2f}")
for invoice, reason in failed:
    print(f"FAILED {invoice['number']}: {reason}")
