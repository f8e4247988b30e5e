# Request: Which branch of acme/web is the oldest unmerged one?
PERMANENT = {"main", "master", "develop"}
branches = await list_branches("acme/web")
unmerged = [b for b in branches if not b["merged"] and b["name"] not in PERMANENT]
if unmerged:
    oldest = min(unmerged, key=lambda b: b["last_commit_at"])
    print(f"{oldest['name']} (last commit {oldest['last_commit_at'][:10]})")
else:
    print("All branches are merged.")
