# Request: Charge every customer with an overdue invoice, retry connection errors twice, and show me who could not be charged and why.
import asyncio
import functools


def retry(times=3, on=(ConnectionError,), seen={}):
    def deco(fn):
        @functools.wraps(fn)
        async def wrapper(*args, **kwargs):
            for attempt in range(1, times + 1):
                seen[args] = seen.get(args, 0) + 1
                try:
                    return await fn(*args, **kwargs)
                except on:
                    if attempt == times:
                        raise
                    await asyncio.sleep(0.01 * attempt)
        wrapper.attempts = seen
        return wrapper
    return deco


@retry(times=3)
async def charge(customer, invoice_id, amount, currency):
    return await charge_customer(
        customer, amount, currency=currency,
        description=f"Invoice {invoice_id}", idempotency_key=f"inv-{invoice_id}",
    )


invoices = await list_invoices(status="overdue")
keys = [(i["customer_id"], i["id"], i["amount"], i["currency"]) for i in invoices]
outcome = await asyncio.gather(*(charge(*k) for k in keys), return_exceptions=True)

ok, failed = [], []
for inv, key, res in zip(invoices, keys, outcome, strict=True):
    if isinstance(res, BaseException):
        failed.append((inv["number"], f"{type(res).__name__} after {charge.attempts[key]} tries"))
    elif res["status"] != "succeeded":
        failed.append((inv["number"], res["failure_reason"] or "unknown"))
    else:
        ok.append(res["charge_id"])
print(f"charged {len(ok)}, failed {len(failed)}")
print(*(f"- {number}: {why}" for number, why in failed), sep="\n")
return failed
