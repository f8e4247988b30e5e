# Request: Refund the shipping damage for orders 5501, 5502 and 5510 with 20% each and mail the customers an apology.
from decimal import Decimal, ROUND_HALF_UP

ORDER_IDS = ["5501", "5502", "5510"]


class Skipped(Exception):
    pass


async def process(order_id: str) -> dict:
    try:
        order = await get_order(order_id)
    except KeyError as exc:
        raise Skipped("no such order") from exc
    if order["status"] in ("cancelled", "refunded"):
        raise Skipped(f"order is already {order['status']}")

    amount = (Decimal(str(order["total"])) * Decimal("0.20")).quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)
    ok = await approve(f"Refund {amount} {order['currency']} of order {order_id} to {order['customer_email']}?")
    if not ok:
        raise Skipped(ok.note or "not approved")

    refund = await refund_order(order_id, float(amount), reason="Shipping damage")
    await send_mail(
        order["customer_email"],
        f"Your order {order_id}",
        "Dear customer,\n\n"
        f"we are sorry that your parcel was damaged. We refunded {refund['amount']:.2f} {order['currency']}.\n\n"
        "Kind regards\nYour shop team",
    )
    return refund


done, skipped = {}, {}
for oid in ORDER_IDS:
    try:
        done[oid] = await process(oid)
    except Skipped as s:
        skipped[oid] = str(s)
    except ValueError as e:
        skipped[oid] = f"refund refused: {e}"
return {"refunded": done, "skipped": skipped}
