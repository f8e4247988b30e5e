# Request: Merge all open PRs labelled "automerge" in "web", oldest first, as long as CI is green and there are two approvals; a PR that says "Depends on #12" must wait until that one is merged.
import re

REPO = "web"
open_prs = {p["number"]: p for p in await list_pull_requests(REPO)}
merged: dict[int, str] = {p["number"]: "before" for p in await list_pull_requests(REPO, state="merged")}
blocked: dict[int, str] = {}


def needs(pr):
    return sorted({int(n) for n in re.findall(r"depends on #(\d+)", pr["body"] or "", re.I)})


async def merge(number, path=()):
    """True when the PR is merged in the end."""
    if number in merged:
        return True
    if number in blocked:
        return False
    if number in path:
        blocked[number] = "cycle " + " > ".join(f"#{n}" for n in (*path[path.index(number):], number))
        return False
    if (pr := open_prs.get(number)) is None:
        blocked[number] = "not open"
        return False
    if "automerge" not in pr["labels"] or pr["draft"]:
        blocked[number] = "not marked for automerge"
        return False
    for other in needs(pr):
        if not await merge(other, (*path, number)):
            blocked.setdefault(number, f"waits for #{other}")
            return False
    if pr["approvals"] < 2:
        blocked[number] = f"{pr['approvals']} approval{'s' * (pr['approvals'] != 1)}"
    elif (state := (await get_ci_status(REPO, pr["head"]))["state"]) != "success":
        blocked[number] = f"CI {state}"
    else:
        try:
            merged[number] = await merge_pull_request(REPO, number)
        except ValueError as exc:
            blocked[number] = str(exc)
    return number in merged


wanted = sorted((p for p in open_prs.values() if "automerge" in p["labels"]), key=lambda p: p["created_at"])
results = {p["number"]: await merge(p["number"]) for p in wanted}
for number, ok in results.items():
    print(f"#{number} {'merged as ' + merged[number][:8] if ok else 'blocked: ' + blocked[number]}")
return sum(results.values()), len(results)
