# Request: Send birthday mail to employees having birthday today, with their first name, from HR
today = now().date()
employees = await list_employees()

sent_to = []
for employee in employees:
    birthday = employee.get("birthday")
    if not birthday:
        continue
    _, month, day = map(int, birthday.split("-"))
    if (month, day) == (today.month, today.day):
        first_name, *_ = employee["name"].split()
        await send_mail(
            to=employee["email"],
            subject=f"Happy birthday, {first_name}! 🎂",
            body=f"Dear {first_name},\n\nall the best for your birthday!\n\nYour HR team",
        )
        sent_to.append(employee["name"])

sent_to or "No birthdays today"
