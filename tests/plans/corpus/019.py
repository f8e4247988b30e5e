# Request: Approve all expenses under 50 EUR that have a receipt
expenses = await list_expenses(status="submitted")

approved = []
skipped = []

for expense in expenses:
    amount = expense["amount"]
    if expense["currency"] != "EUR":
        rate = await get_exchange_rate(expense["currency"], "EUR", expense["date"])
        amount = amount * rate

    if amount < 50 and expense["receipt"] is not None:
        try:
            await decide_expense(expense["id"], "approved", comment="Auto-approved: under 50 EUR with receipt")
            approved.append(expense["id"])
        except ValueError:
            # Somebody else was faster
            skipped.append(expense["id"])
    else:
        skipped.append(expense["id"])

return {"approved": approved, "left_for_review": skipped}
