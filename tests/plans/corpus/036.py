# Request: Do we have more cash than open liabilities? Show balance per currency in EUR
balances = await get_balance()

total = 0
for currency, amount in balances.items():
    rate = 1 if currency == "EUR" else await get_exchange_rate(currency, "EUR")
    eur = amount * rate
    total += eur
    print(f"{currency}: {amount:,.2f} = {eur:,.2f} EUR")

print(f"Total: {total:,.2f} EUR")
