# Request: who reviewed nothing? list team members who aren't reviewer on any open PR of acme/mobile
team = {e["email"].split("@")[0] for e in await list_employees(department="Mobile")}
prs = await list_pull_requests("acme/mobile")
reviewing = {r for pr in prs for r in pr["reviewers"]}

idle = sorted(team - reviewing)
print(", ".join(idle) if idle else "Everybody reviews something.")
