# Request: Read the meeting notes "2025-02-20 Product sync" and make tickets of the action items, assign them to the named persons
import re

hits = await search_files("2025-02-20 Product sync", limit=5)
if not hits:
    raise ValueError("Meeting notes not found")

notes = await read_document(hits[0]["id"])

# Action items look like "- [ ] @name: do something (due 2025-03-01)"
pattern = re.compile(r"^- \[ \] @(?P<who>\w+):\s*(?P<what>.+?)(?:\s*\(due (?P<due>\d{4}-\d{2}-\d{2})\))?$", re.MULTILINE)

created = []
for match in pattern.finditer(notes):
    who = match.group("who")
    what = match.group("what")
    due = match.group("due")
    description = f"From meeting notes {hits[0]['path']}"
    if due:
        description += f"\nDue: {due}"
    ticket = await create_ticket(what, description, assignee=who, labels=["action-item"])
    created.append(f"{ticket['id']} {what} -> {who}")

print("\n".join(created) or "No action items found.")
