# Request: Process the refund requests sheet /finance/refunds.json: list of {order_id, amount, reason}. Ask for approval for everything over 100.
import json

files = await search_files("refunds.json")
file = next((f for f in files if f["path"] == "/finance/refunds.json"), None)
if file is None:
    return {"error": "refunds.json not found"}

try:
    requests = json.loads(await read_document(file["id"]))
except json.JSONDecodeError as e:
    return {"error": f"invalid JSON: {e}"}

results = []
for req in requests:
    order_id = req["order_id"]
    amount = float(req["amount"])
    entry = {"order_id": order_id, "amount": amount}

    if amount > 100:
        approval = await approve(f"Refund {amount:.2f} for order {order_id}? Reason: {req.get('reason', '-')}")
        if not approval:
            entry["status"] = "declined"
            entry["note"] = approval.note
            results.append(entry)
            continue

    try:
        r = await refund_order(order_id, amount=amount, reason=req.get("reason", ""))
        entry["status"] = "refunded"
        entry["refund_id"] = r["refund_id"]
    except (KeyError, ValueError) as e:
        entry["status"] = "error"
        entry["error"] = str(e)
    results.append(entry)

return {
    "refunded": sum(r["amount"] for r in results if r["status"] == "refunded"),
    "results": results,
}
