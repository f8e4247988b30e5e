# Request: Keep trying to reach the carrier for the shipment of order 10-808 (it times out), with exponential backoff, max 1 minute in total
import asyncio


async def get_shipment_with_backoff(order_id: str, max_total: float = 60.0):
    delay, waited = 1.0, 0.0
    while True:
        try:
            return await get_shipment(order_id)
        except TimeoutError:
            if waited + delay > max_total:
                raise
            await asyncio.sleep(delay)
            waited += delay
            delay = min(delay * 2, 16)


try:
    shipment = await get_shipment_with_backoff("10-808")
    if shipment:
        print(f"{shipment['carrier']} {shipment['tracking']}: {shipment['status']}, ETA {shipment['eta']}")
    else:
        print("Not shipped yet.")
except TimeoutError:
    print("The carrier did not answer within a minute. Please try again later.")
