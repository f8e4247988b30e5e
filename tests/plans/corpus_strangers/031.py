# Request: Merge every approved, green, non-draft PR in the "docs" repo with at least 2 approvals. Ask me once for the whole batch.
import asyncio

REPO = "docs"
prs = await list_pull_requests(REPO)
eligible = [pr for pr in prs if not pr["draft"] and pr["approvals"] >= 2 and "do-not-merge" not in pr["labels"]]
statuses = await asyncio.gather(*(get_ci_status(REPO, pr["head"]) for pr in eligible))
ready = [pr for pr, ci in zip(eligible, statuses, strict=True) if ci["state"] == "success"]

if not ready:
    return f"None of {len(prs)} open pull requests is ready."

question = f"Merge {len(ready)} pull requests into {REPO}?\n" + "\n".join(
    f"#{pr['number']} {pr['title']} by {pr['author']} ({pr['approvals']} approvals)" for pr in ready
)
if not await approve(question):
    return "Nothing merged."

merged = {}
conflicts = []
# one at a time: every merge may make the next one unmergeable
for pr in sorted(ready, key=lambda pr: pr["created_at"]):
    try:
        merged[pr["number"]] = await merge_pull_request(REPO, pr["number"], method="squash")
    except ValueError as e:
        conflicts.append(pr["number"])
        await comment_on_pull_request(REPO, pr["number"], f"Could not be merged automatically: {e}. Please rebase.")

return {"merged": merged, "conflicts": conflicts}
