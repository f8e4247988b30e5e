# Request: The customer bob@shop.de complains he was charged twice for order 10-5550. Check the transactions and refund if true.
order = await get_order("10-5550")
if order["customer_email"] != "bob@shop.de":
    print(f"Order 10-5550 belongs to {order['customer_email']}, not to bob@shop.de!")
else:
    txs = await list_transactions(since=order["created_at"][:10])
    charges = [t for t in txs if t["kind"] == "charge" and "10-5550" in t["reference"]]
    refunds = [t for t in txs if t["kind"] == "refund" and "10-5550" in t["reference"]]

    charged = sum(t["amount"] for t in charges)
    refunded = sum(abs(t["amount"]) for t in refunds)
    surplus = round(charged - refunded - order["total"], 2)

    print(f"Order total {order['total']:.2f}, charged {charged:.2f} in {len(charges)} charges, refunded {refunded:.2f}")
    if surplus <= 0:
        print("The customer was not overcharged.")
    else:
        approval = await approve(f"Refund the surplus of {surplus:.2f} {order['currency']} to bob@shop.de?")
        if approval:
            res = await refund_order("10-5550", amount=min(surplus, order["total"]), reason="Charged twice")
            print(f"Refunded {res['amount']:.2f} ({res['refund_id']})")
