# Request: Merge PR 512 in acme/api once CI is green. Check every minute, give up after 20 minutes.
import asyncio

REPO, NUMBER = "acme/api", 512

prs = await list_pull_requests(REPO, state="open")
pr = next((p for p in prs if p["number"] == NUMBER), None)
if pr is None:
    return f"PR #{NUMBER} is not open."

for i in range(20):
    ci = await get_ci_status(REPO, pr["head"])
    if ci["state"] == "success":
        try:
            sha = await merge_pull_request(REPO, NUMBER)
        except ValueError as err:
            return f"CI is green, but merging failed: {err}"
        return f"Merged #{NUMBER} as {sha[:8]} after {i} minutes."
    if ci["state"] == "failure":
        failed = [c["name"] for c in ci["checks"] if c["state"] == "failure"]
        return f"CI failed: {', '.join(failed)}"
    await asyncio.sleep(60)

return "CI was still pending after 20 minutes, I gave up."
