# Request: Please write the release checklist as tickets, one per item: "freeze main", "run e2e tests", "update docs", "tag release", "announce"
items = ["freeze main", "run e2e tests", "update docs", "tag release", "announce"]

tickets = []
for n, item in enumerate(items, start=1):
    t = await create_ticket(
        title=f"Release {n}/{len(items)}: {item}",
        description="Part of the release checklist" + (f", after {tickets[-1]['id']}" if tickets else ""),
        labels=["release"],
    )
    tickets.append(t)

return [t["id"] for t in tickets]
