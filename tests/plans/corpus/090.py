# Request: Schedule interviews for the candidate max@gmail.com with Eva, Finn and Gül, 30 min each, back to back on the 14th of April
from datetime import datetime, timedelta

interviewers = {
    "Eva": "eva@acme.com",
    "Finn": "finn@acme.com",
    "Gül": "guel@acme.com",
}
day = "2025-04-14"

# we need one block of 90 minutes in which all three are free
slots = await find_free_slots(list(interviewers.values()), day, minutes=90)

if not slots:
    print("There is no 90 minute block in which all interviewers are free.")
else:
    start = datetime.fromisoformat(slots[0]["start"])
    agenda = []
    for name, email in interviewers.items():
        end = start + timedelta(minutes=30)
        event = await create_event(
            title=f"Interview with max@gmail.com ({name})",
            start=start.isoformat(),
            end=end.isoformat(),
            attendees=[email, "max@gmail.com"],
        )
        agenda.append(f"{start:%H:%M} - {end:%H:%M}  {name}")
        start = end

    await send_mail(
        "max@gmail.com",
        "Your interviews at Acme",
        f"Hi Max,\n\nhere's the agenda for {day}:\n\n" + "\n".join(agenda) + "\n\nSee you then!",
    )
    print("\n".join(agenda))
