# Request: convert 100 CHF to EUR, USD, GBP and JPY
targets = ["EUR", "USD", "GBP", "JPY"]
for t in targets:
    rate = await get_exchange_rate("CHF", t)
    print(f"100 CHF = {100 * rate:,.2f} {t}")
