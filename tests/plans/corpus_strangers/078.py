# Request: Check that all pull requests in "platform" follow our rules (title like "ABC-123: text", description, at most 400 changed lines, a reviewer, green CI) and comment once per PR with everything that is wrong.
import asyncio
import re
from functools import wraps

REPO = "platform"
rules = []


def rule(text, *, drafts=False):
    def register(fn):
        @wraps(fn)
        async def checked(pr):
            if pr["draft"] and not drafts:
                return None
            result = fn(pr)
            if asyncio.iscoroutine(result):
                result = await result
            return None if result is True else text.format(result or "")
        rules.append(checked)
        return checked
    return register


@rule("The title must start with a ticket key, e.g. `ABC-123: ...`", drafts=True)
def title(pr):
    return bool(re.match(r"[A-Z]{2,}-\d+: \S", pr["title"]))


@rule("Please write a description.")
def body(pr):
    return len((pr["body"] or "").strip()) >= 20


@rule("Too large: {} changed lines, please split it.")
async def size(pr):
    n = sum(f["additions"] + f["deletions"] for f in await get_diff(REPO, pr["base"], pr["head"]))
    return n <= 400 or n


@rule("There is no reviewer.")
def reviewer(pr):
    return pr["reviewers"] != [] or pr["approvals"] > 0


@rule("CI: {}")
async def ci(pr):
    status = await get_ci_status(REPO, pr["head"])
    return status["state"] == "success" or ", ".join(
        f"{c['name']} is {c['state']}" for c in status["checks"] if c["state"] != "success") or status["state"]


report = {}
for pr in await list_pull_requests(REPO):
    if problems := [p for p in await asyncio.gather(*(r(pr) for r in rules)) if p is not None]:
        await comment_on_pull_request(REPO, pr["number"], "\n".join(f"- [ ] {p}" for p in problems))
    report[pr["number"]] = len(problems)
print([r.__name__ for r in rules])
return report
