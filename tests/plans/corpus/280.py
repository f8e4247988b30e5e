# Request: compute my travel expenses this year in EUR (employee e_42) using the exchange rate of each expense's date
total = 0.0
rate_cache: dict[tuple[str, str], float] = {}

for exp in await list_expenses(employee_id="e_42", since=f"{now().year}-01-01"):
    if exp["category"] != "travel" or exp["status"] == "rejected":
        continue
    key = (exp["currency"], exp["date"][:10])
    if key not in rate_cache:
        rate_cache[key] = 1.0 if exp["currency"] == "EUR" else await get_exchange_rate(exp["currency"], "EUR", date=exp["date"][:10])
    eur = exp["amount"] * rate_cache[key]
    total += eur
    print(f"{exp['date'][:10]} {exp['description'][:40]:<40} {eur:10.2f}")

print(f"{'Total':<51} {total:10.2f}")
