# Request: sync: for tickets labelled "upstream" add a comment with the current state of the PR mentioned in the description (like acme/web#123)
import re

page = await search_tickets(label="upstream", status="waiting")
pr_cache: dict[str, dict[int, dict]] = {}

for ticket in page["tickets"]:
    match = re.search(r"([\w-]+/[\w-]+)#(\d+)", ticket["description"])
    if not match:
        print(f"{ticket['id']}: no PR reference")
        continue

    repo, number = match.group(1), int(match.group(2))
    if repo not in pr_cache:
        pr_cache[repo] = {pr["number"]: pr for pr in await list_pull_requests(repo, state="all")}

    pr = pr_cache[repo].get(number)
    if pr is None:
        print(f"{ticket['id']}: {repo}#{number} not found")
        continue

    match pr["state"]:
        case "merged":
            text = f"{repo}#{number} was merged, this can be continued."
            await update_ticket(ticket["id"], status="open")
        case "closed":
            text = f"{repo}#{number} was closed without being merged."
        case _:
            text = f"{repo}#{number} is still open ({pr['approvals']} approvals)."
    await add_ticket_comment(ticket["id"], text)
    print(f"{ticket['id']}: {text}")
