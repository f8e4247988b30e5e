# Request: Approve all travel expenses under 100 EUR that have a receipt; leave the rest and tell me why.
LIMIT_EUR = 100
rates = {"EUR": 1.0}


async def to_eur(amount, currency):
    if currency not in rates:
        rates[currency] = await get_exchange_rate(currency, "EUR")
    return amount * rates[currency]


approved, skipped = [], []
for exp in await list_expenses(status="submitted"):
    if exp["category"].lower() != "travel":
        continue
    try:
        eur = await to_eur(exp["amount"], exp["currency"])
    except ValueError:
        skipped.append((exp, f"unknown currency {exp['currency']}"))
        continue

    if exp["receipt"] is None:
        skipped.append((exp, "no receipt"))
    elif eur >= LIMIT_EUR:
        skipped.append((exp, f"{eur:.2f} EUR is not under the limit"))
    else:
        try:
            await decide_expense(exp["id"], "approved", comment="Auto-approved: travel under 100 EUR with receipt")
        except ValueError as e:
            skipped.append((exp, f"already decided ({e})"))
        else:
            approved.append((exp, eur))

total = sum(eur for _, eur in approved)
print(f"Approved {len(approved)} claims, {total:.2f} EUR in total.")
for exp, why in skipped:
    print(f"- {exp['id']} {exp['description'][:40]!r}: {why}")
