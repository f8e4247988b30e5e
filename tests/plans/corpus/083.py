# Request: Look up which PR introduced the function parse_price in acme/shop
commits = await list_commits("acme/shop", limit=500)
candidates = [c for c in commits if any("price" in f for f in c["files"])]

found = None
for commit in reversed(candidates):
    diff = await get_diff("acme/shop", f"{commit['sha']}~1", commit["sha"])
    if any("+def parse_price" in d["patch"] for d in diff):
        found = commit
        break

if found:
    print(f"{found['sha'][:10]} by {found['author']} on {found['date'][:10]}: {found['message'].splitlines()[0]}")
else:
    print("Could not find the commit which introduced parse_price.")
