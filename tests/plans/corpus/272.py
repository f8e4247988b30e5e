# Request: Who approved... which merged PRs in acme/api this month had fewer than 2 approvals?
month = now().strftime("%Y-%m")
merged = await list_pull_requests("acme/api", state="merged")
bad = [pr for pr in merged if pr["updated_at"].startswith(month) and pr["approvals"] < 2]

for pr in sorted(bad, key=lambda p: p["updated_at"]):
    print(f"#{pr['number']} {pr['title']} by {pr['author']}: {pr['approvals']} approval(s)")
print(f"{len(bad)} PRs")
