# Request: Request vacation for me (e_17) from the 4th to the 15th of August and create a blocker in my calendar, decline the meetings in between
leave = await request_leave("e_17", "2025-08-04", "2025-08-15", kind="vacation")

me = await get_employee("e_17")
email = me["email"]

blocker = await create_event(
    title="Vacation",
    start="2025-08-04T00:00:00",
    end="2025-08-15T23:59:00",
    attendees=[email],
    description=f"Leave request {leave['id']}",
)

events = await list_events(email, "2025-08-04", "2025-08-16")
to_notify = set()
for ev in events:
    if ev["id"] == blocker["id"] or ev["organizer"] == email:
        continue
    to_notify.add(ev["organizer"])

for organizer in to_notify:
    await send_mail(organizer, "Out of office 4-15 August", f"Hi,\n\nI'm on vacation from August 4th to 15th and can't attend our meetings in this period.\n\nBest,\n{me['name']}")

print(f"Leave request {leave['id']} is {leave['status']}; informed {len(to_notify)} organizers.")
