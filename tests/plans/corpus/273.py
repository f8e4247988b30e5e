# Request: Process new orders: for each paid order check stock for all lines; if everything is available decrease stock and create a ticket "Ship <order>", otherwise create a ticket "Backorder" with missing items
import logging

logging.basicConfig(level=logging.INFO)
logger = logging.getLogger(__name__)


async def get_paid_orders():
    """Collect all paid orders across pages, oldest first."""
    orders = []
    page = 1
    while True:
        response = await list_orders(status="paid", page=page)
        orders.extend(response["items"])
        if page >= response["pages"]:
            break
        page += 1
    orders.sort(key=lambda o: o["created_at"])
    return orders


async def process_order(order, stock):
    """Ship the order if everything is on stock. Returns 'ship' or 'backorder'."""
    missing = []
    for line in order["lines"]:
        available = stock.get(line["sku"], 0)
        if available < line["quantity"]:
            missing.append(f"{line['quantity'] - available}x {line['sku']} {line['title']}")

    if missing:
        await create_ticket(f"Backorder {order['id']}", "Missing:\n" + "\n".join(missing), labels=["backorder"])
        return "backorder"

    for line in order["lines"]:
        stock[line["sku"]] -= line["quantity"]
        await update_product(line["sku"], stock=stock[line["sku"]])
    await create_ticket(f"Ship {order['id']}", f"Ship to {order['shipping'].get('city')}, {order['shipping'].get('country')}", labels=["shipping"])
    return "ship"


stock = {p["sku"]: p["stock"] for p in await list_products(active_only=False)}
outcome = {"ship": 0, "backorder": 0}
for order in await get_paid_orders():
    try:
        outcome[await process_order(order, stock)] += 1
    except (KeyError, ValueError) as e:
        logger.error("Order %s failed: %s", order["id"], e)

return outcome
