# Request: Prepare the daily stand-up note for the team: for every engineer, the commits since 2025-05-05 in api and web, open PRs, and tickets in progress.
import asyncio
from textwrap import indent, shorten

REPOS = ("api", "web")
note: dict[str, dict[str, list[str]]] = {}
team = {p["email"]: p for p in await list_employees(department="Engineering")}
blank = {"commits": [], "prs": [], "tickets": []}
for email in team:
    note[email] = {k: v[:] for k, v in blank.items()}

logins = {email.partition("@")[0]: email for email in team}


async def commits(repo):
    for c in await list_commits(repo, since="2025-05-05"):
        if (entry := note.get(c["author_email"])) is not None:
            head, *_ = c["message"].splitlines() or [""]
            entry["commits"].append(f"{repo} {c['sha'][:7]} {shorten(head, 50, placeholder='…')}")


async def prs(repo):
    for pr in await list_pull_requests(repo):
        if pr["author"] in logins:
            note[logins[pr["author"]]]["prs"] += [f"{repo}#{pr['number']} {pr['title']}" + " (draft)" * pr["draft"]]


async def tickets(email):
    cursor = None
    while True:
        page = await search_tickets(status="in_progress", assignee=email, cursor=cursor)
        note[email]["tickets"].extend(f"{t['id']} {t['title']}" for t in page["tickets"])
        if (cursor := page["next_cursor"]) is None:
            break


async with asyncio.TaskGroup() as tg:
    for repo in REPOS:
        tg.create_task(commits(repo))
        tg.create_task(prs(repo))
    for email in note:
        tg.create_task(tickets(email))

parts = []
for email, entry in sorted(note.items(), key=lambda kv: team[kv[0]]["name"]):
    sections = [f"{title}:\n{indent(chr(10).join(sorted(rows)), '  - ')}" for title, rows in entry.items() if rows]
    parts.append(f"*{team[email]['name']}*\n" + ("\n".join(sections) or "(nothing)"))
assert not any(blank.values())
return await post_message("#standup", "\n\n".join(parts))
