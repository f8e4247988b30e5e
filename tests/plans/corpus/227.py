# Request: tell @finance the sum of approved but not yet paid expenses
async def to_eur(amount: float, currency: str) -> float:
    if currency == "EUR":
        return amount
    try:
        rate = await get_exchange_rate(currency, "EUR")
    except ValueError:
        print(f"Unknown currency {currency}, ignoring {amount}")
        return 0.0
    return amount * rate


expenses = await list_expenses(status="approved")
total = 0.0
for e in expenses:
    total += await to_eur(e["amount"], e["currency"])

await post_message("@finance", f"{len(expenses)} approved expenses to be paid, {total:,.2f} EUR in total")
round(total, 2)
