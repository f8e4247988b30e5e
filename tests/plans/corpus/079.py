# Request: reject all expenses without receipt above 30 euro and mail the employee why
pending = await list_expenses(status="submitted")
rejected = [e for e in pending if not e["receipt"] and e["amount"] > 30 and e["currency"] == "EUR"]

for e in rejected:
    await decide_expense(e["id"], "rejected", comment="Receipt missing")
    emp = await get_employee(e["employee_id"])
    if emp:
        await send_mail(
            emp["email"],
            "Your expense was rejected",
            f"Hi {emp['name'].split()[0]},\n\n"
            f"your expense \"{e['description']}\" of {e['date']} over {e['amount']:.2f} EUR was rejected, "
            "because there is no receipt. Please submit it again with a receipt.\n",
        )

print(f"Rejected {len(rejected)} of {len(pending)} expenses")
