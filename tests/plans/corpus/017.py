# Request: Where's my order 10-4432?
import asyncio


async def main():
    order_id = "10-4432"
    try:
        order = await get_order(order_id)
    except KeyError:
        print(f"Order {order_id} was not found.")
        return

    try:
        shipment = await get_shipment(order_id)
    except TimeoutError:
        print(f"Order {order_id} is {order['status']}, but the carrier could not be reached.")
        return

    if shipment is None:
        print(f"Order {order_id} is {order['status']} and has not been shipped yet.")
        return

    print(f"Carrier: {shipment['carrier']} ({shipment['tracking']})")
    print(f"Status: {shipment['status']}")
    print(f"ETA: {shipment['eta'] or 'unknown'}")
    if shipment["events"]:
        last = shipment["events"][-1]
        print("Last event:", last.get("description", last))


asyncio.run(main())
