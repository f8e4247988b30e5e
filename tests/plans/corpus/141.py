# Request: Find PR authors who aren't in our HR system any more
prs = await list_pull_requests("acme/web", state="open")
authors = sorted({pr["author"] for pr in prs})

gone = []
for author in authors:
    emp = await get_employee(f"{author}@acme.com")
    if emp is None or not emp["active"]:
        gone.append(author)

gone
