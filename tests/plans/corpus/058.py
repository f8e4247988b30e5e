# Request: Translate the amounts of all submitted expenses to EUR and show me those above 500
import asyncio
import json


async def main():
    expenses = await list_expenses(status="submitted")

    # Get the exchange rates for all currencies in parallel
    currencies = list({e["currency"] for e in expenses} - {"EUR"})
    rate_values = await asyncio.gather(*[get_exchange_rate(c, "EUR") for c in currencies])
    rates = dict(zip(currencies, rate_values))
    rates["EUR"] = 1.0

    large = []
    for e in expenses:
        amount_eur = round(e["amount"] * rates[e["currency"]], 2)
        if amount_eur > 500:
            employee = await get_employee(e["employee_id"])
            large.append({
                "employee": employee["name"] if employee else e["employee_id"],
                "category": e["category"],
                "description": e["description"],
                "original": f"{e['amount']:.2f} {e['currency']}",
                "amount_eur": amount_eur,
            })

    large.sort(key=lambda item: item["amount_eur"], reverse=True)
    print(json.dumps(large, indent=2))


asyncio.run(main())
