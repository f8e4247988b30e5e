# Request: Check if the bank balance is below 10k EUR and alert #finance if so
balance = await get_balance()
eur = balance.get("EUR", 0.0)

if eur < 10_000:
    await post_message("#finance", f":warning: Bank balance is low: {eur:,.2f} EUR")
    print("Alert sent.")
else:
    print(f"Balance is fine: {eur:,.2f} EUR")
