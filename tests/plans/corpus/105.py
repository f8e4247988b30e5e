# Request: Do a dry run of merging all approved PRs (2+ approvals, CI green, not draft) in acme/web, then after my ok merge them
import asyncio

REPO = "acme/web"

prs = await list_pull_requests(REPO)
eligible = [p for p in prs if not p["draft"] and p["approvals"] >= 2 and "do-not-merge" not in p["labels"]]
statuses = await asyncio.gather(*[get_ci_status(REPO, p["head"]) for p in eligible])
ready = [p for p, s in zip(eligible, statuses) if s["state"] == "success"]

if not ready:
    print("No PR is ready to be merged.")
else:
    plan = "\n".join(f"#{p['number']} {p['title']} by {p['author']}" for p in ready)
    print("Ready to merge:\n" + plan)

    if await approve(f"Merge {len(ready)} PRs into main?\n{plan}"):
        # merge sequentially, oldest first, to avoid conflicts
        for p in sorted(ready, key=lambda p: p["created_at"]):
            try:
                sha = await merge_pull_request(REPO, p["number"], method="squash")
                print(f"✓ #{p['number']} merged as {sha[:7]}")
            except ValueError as e:
                print(f"✗ #{p['number']} failed: {e}")
                await comment_on_pull_request(REPO, p["number"], f"Automatic merge failed: {e}")
    else:
        print("Nothing merged.")
