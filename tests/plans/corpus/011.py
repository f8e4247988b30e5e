# Request: What is the exchange rate from USD to EUR right now, and how much is 1250 USD?
rate = await get_exchange_rate("USD", "EUR")
usd = 1250
amount = usd * rate
f"{usd} USD = {amount:.2f} EUR (1 USD = {rate:.4f} EUR)"
