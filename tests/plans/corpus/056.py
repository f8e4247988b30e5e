# Request: Check all invoices of customer c_12: does the sum of the items match the invoice amount?
invoices = await list_invoices(customer_id="c_12")
mismatches = []

for inv in invoices:
    computed = sum(item["quantity"] * item["price"] for item in inv["items"])
    if abs(computed - inv["amount"]) > 0.005:
        mismatches.append((inv["number"], inv["amount"], round(computed, 2)))

return {
    "checked": len(invoices),
    "consistent": not mismatches,
    "mismatches": [
        {"number": number, "amount": amount, "items_total": computed}
        for number, amount, computed in mismatches
    ],
}
