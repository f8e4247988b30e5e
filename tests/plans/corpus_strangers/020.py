# Request: Check whether customer order 10482 can still be cancelled; if so cancel it, else tell me where the parcel is.
order_id = "10482"

try:
    order = await get_order(order_id)
except KeyError:
    return f"There is no order {order_id}."

match order["status"]:
    case "pending" | "paid":
        answer = await approve(f"Cancel order {order_id} ({order['total']:.2f} {order['currency']}) of {order['customer_email']}?")
        if not answer:
            return "You declined, the order stays as it is."
        try:
            await cancel_order(order_id, reason=answer.note or "Requested by customer")
        except ValueError as err:
            return f"Too late: {err}"
        return f"Order {order_id} was cancelled."
    case "shipped" | "delivered" as status:
        try:
            shipment = await get_shipment(order_id)
        except TimeoutError:
            return f"The order is {status}, but the carrier does not answer right now."
        if shipment is None:
            return f"The order is marked {status}, but there is no shipment."
        last = shipment["events"][-1] if shipment["events"] else {}
        return {
            "status": shipment["status"],
            "carrier": shipment["carrier"],
            "tracking": shipment["tracking"],
            "eta": shipment["eta"],
            "last_event": last,
        }
    case other:
        return f"The order is already {other}."
