# Request: which of these orders are late: 10-100, 10-101, 10-102, 10-107?
import asyncio
from datetime import date

order_ids = ["10-100", "10-101", "10-102", "10-107"]
shipments = await asyncio.gather(*[get_shipment(oid) for oid in order_ids])
today = date.today().isoformat()

late = []
for oid, s in zip(order_ids, shipments):
    if s and s["eta"] and s["eta"][:10] < today and s["status"] != "delivered":
        late.append(oid)

{"late": late, "not_found": [oid for oid, s in zip(order_ids, shipments) if s is None]}
