# Request: Any failing checks on the open PRs of acme/web? Comment on the PR with the failed checks
prs = await list_pull_requests("acme/web")
commented = 0

for pr in prs:
    status = await get_ci_status("acme/web", pr["head"])
    if status["state"] != "failure":
        continue
    failed = [c for c in status["checks"] if c.get("state") == "failure"]
    body = "The following checks failed:\n" + "\n".join(f"- [{c['name']}]({c.get('url', '')})" for c in failed)
    await comment_on_pull_request("acme/web", pr["number"], body)
    commented += 1

f"Commented on {commented} of {len(prs)} PRs"
