# Request: Charge all customers with open invoices due today. Be careful about double charging and retry on connection problems.
import asyncio
from dataclasses import dataclass, field


@dataclass
class Summary:
    succeeded: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return len(self.succeeded) + len(self.failed)


async def charge_with_retry(inv, attempts=4):
    delay = 1.0
    for attempt in range(1, attempts + 1):
        try:
            return await charge_customer(
                inv["customer_id"],
                inv["amount"],
                inv["currency"],
                description=f"Invoice {inv['number']}",
                idempotency_key=f"invoice-{inv['id']}",
            )
        except ConnectionError:
            if attempt == attempts:
                raise
            await asyncio.sleep(delay)
            delay *= 2


today = now().date().isoformat()
due = [i for i in await list_invoices(status="open") if i["due"][:10] == today]
if not due:
    return "No invoices are due today."

total = sum(i["amount"] for i in due)
if not await approve(f"Charge {len(due)} customers, {total:,.2f} in total?"):
    return "Not approved, nothing charged."

summary = Summary()
for inv in due:
    try:
        result = await charge_with_retry(inv)
    except ConnectionError as e:
        summary.failed[inv["number"]] = f"connection: {e}"
        continue
    if result["status"] == "succeeded":
        summary.succeeded.append(inv["number"])
    else:
        summary.failed[inv["number"]] = result["failure_reason"] or "unknown reason"
return {"charged": summary.succeeded, "failed": summary.failed, "processed": summary.total}
