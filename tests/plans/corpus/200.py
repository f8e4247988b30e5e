# Request: Find all the branches with name pattern feature/ABC-123 whose ticket is already closed and delete them (with approval)
import re

REPO = "acme/web"
to_delete = []

for branch in await list_branches(REPO):
    m = re.match(r"^(?:feature|bugfix)/([A-Z]+-\d+)", branch["name"])
    if m is None or branch["protected"]:
        continue
    ticket = await get_ticket(m.group(1))
    if ticket and ticket["status"] == "closed":
        to_delete.append((branch["name"], ticket["id"]))

if not to_delete:
    print("Nothing to delete.")
else:
    answer = await approve(
        "Delete these branches?\n" + "\n".join(f"{name} ({ticket_id} is closed)" for name, ticket_id in to_delete)
    )
    if answer:
        for name, _ in to_delete:
            await delete_branch(REPO, name)
        print(f"Deleted {len(to_delete)} branches")
    else:
        print("OK, I left them alone.")
