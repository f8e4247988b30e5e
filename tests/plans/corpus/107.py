# Request: Send each employee with more than 20 vacation days left a reminder to plan their vacation
import asyncio

employees = await list_employees()

BATCH_SIZE = 10
reminded = []

for i in range(0, len(employees), BATCH_SIZE):
    batch = employees[i:i + BATCH_SIZE]
    balances = await asyncio.gather(*(get_leave_balance(e["id"]) for e in batch))
    for emp, bal in zip(batch, balances):
        days = bal.get("vacation", 0)
        if days > 20:
            first_name = emp["name"].split(" ")[0]
            await send_mail(
                to=emp["email"],
                subject="Please plan your vacation",
                body=f"Hi {first_name},\n\nyou have {days:g} vacation days left. Please plan them soon.\n\nYour HR team",
            )
            reminded.append(emp["name"])

print(f"Reminded {len(reminded)} employees: {', '.join(reminded)}")
