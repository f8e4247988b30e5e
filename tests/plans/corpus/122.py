# Request: Onboard the new hire Sara Lindt (sara@acme.com) in Engineering: tickets for laptop and accounts, welcome mail, intro meeting with her manager next Monday 10:00
import asyncio
from datetime import date, timedelta

EMAIL = "sara@acme.com"

employee = await get_employee(EMAIL)
if employee is None:
    raise RuntimeError("Sara is not in the HR system yet")

manager = await get_employee(employee["manager_id"]) if employee["manager_id"] else None

laptop, accounts = await asyncio.gather(
    create_ticket(
        "Laptop for Sara Lindt",
        f"Please prepare a laptop for {employee['name']} ({employee['title']}), start date {employee['start_date']}.",
        priority="high",
        labels=["onboarding", "hardware"],
    ),
    create_ticket(
        "Accounts for Sara Lindt",
        "Git, VPN, HR portal, chat.",
        labels=["onboarding", "accounts"],
    ),
)

await send_mail(
    EMAIL,
    "Welcome to Acme!",
    f"""Hi Sara,

welcome on board! Your laptop is being prepared ({laptop['id']}) and your accounts
are on the way ({accounts['id']}).

See you soon!
""",
)

if manager:
    today = date.today()
    monday = today + timedelta(days=7 - today.weekday())
    event = await create_event(
        "Intro: Sara / " + manager["name"],
        f"{monday}T10:00:00",
        f"{monday}T10:30:00",
        [EMAIL, manager["email"]],
    )
    print(f"Meeting: {event['start']}")

print(f"Tickets: {laptop['id']}, {accounts['id']}")
