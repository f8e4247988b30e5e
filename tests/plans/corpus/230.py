# Request: Create one calendar event per milestone in /projects/phoenix/milestones.csv (date,name,owner email)
import csv
from datetime import datetime
from io import StringIO

files = await list_files("/projects/phoenix")
csv_file = next((f for f in files if f["name"] == "milestones.csv"), None)

if not csv_file:
    print("milestones.csv not found")
else:
    rows = csv.DictReader(StringIO(await read_document(csv_file["id"])))
    created = []
    for row in rows:
        try:
            day = datetime.strptime(row["date"].strip(), "%d.%m.%Y").date()
        except ValueError:
            day = datetime.strptime(row["date"].strip(), "%Y-%m-%d").date()
        ev = await create_event(
            title=f"[Phoenix] {row['name']}",
            start=f"{day}T09:00:00",
            end=f"{day}T09:15:00",
            attendees=[row["owner"].strip()],
            description="Milestone",
        )
        created.append(ev)
    for ev in created:
        print(ev["start"][:10], ev["title"])
