# Request: Read all the meeting notes in /notes/2025, extract lines like "TODO(@ann): write spec (due 2025-06-01)", create a ticket for each one that has no ticket yet, and write back the ticket id into the note.
import re

TODO = re.compile(r"^(?P<pre>\s*[-*]?\s*)TODO\(@(?P<who>\w+)\):\s*(?P<what>.+?)(?:\s*\(due (?P<due>\d{4}-\d\d-\d\d)\))?(?P<ref>\s*\[[A-Z]+-\d+\])?\s*$")
known: dict[str, str] = {}
created, stats = [], {"files": 0, "todos": 0, "new": 0}


def key(text):
    return " ".join(re.findall(r"\w+", text.casefold()))


async def ticket_for(what, who, due, source):
    if (k := key(what)) not in known:
        cursor = None
        while k not in known:
            page = await search_tickets(query=what, label="meeting", cursor=cursor)
            known.update((key(t["title"]), t["id"]) for t in page["tickets"])
            if not (cursor := page["next_cursor"]):
                break
        if k not in known:
            t = await create_ticket(what, f"From {source}" + (f", due {due}" if due else ""),
                                    labels=["meeting"], assignee=f"{who}@acme.example")
            known[k] = t["id"]
            created.append(t["id"])
            stats["new"] += 1
    return known[k]


for f in await list_files("/notes/2025", recursive=True):
    if not f["name"].endswith((".md", ".txt")):
        continue
    lines = (text := await read_document(f["id"])).split("\n")
    for i, line in enumerate(lines):
        if not (m := TODO.match(line)):
            continue
        stats["todos"] += 1
        if m["ref"]:
            known.setdefault(key(m["what"]), m["ref"].strip(" []"))
            continue
        lines[i] = line.rstrip() + f" [{await ticket_for(m['what'], m['who'], m['due'], f['path'])}]"
    if (new := "\n".join(lines)) != text:
        await write_document(f["path"], new, overwrite=True)
        stats["files"] += 1
return {**stats, "created": created}
