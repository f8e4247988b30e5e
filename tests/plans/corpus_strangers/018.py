# Request: How is the CI of all open pull requests in "web" and "api"? Post the failing ones to #dev.
import asyncio

REPOS = ("web", "api")


async def status_of(repo, pr):
    ci = await get_ci_status(repo, pr["head"])
    return repo, pr, ci


async with asyncio.TaskGroup() as tg:
    listing = {repo: tg.create_task(list_pull_requests(repo)) for repo in REPOS}

async with asyncio.TaskGroup() as tg:
    tasks = [
        tg.create_task(status_of(repo, pr))
        for repo, task in listing.items()
        for pr in task.result()
        if not pr["draft"]
    ]

results = [t.result() for t in tasks]
failing = [(repo, pr, ci) for repo, pr, ci in results if ci["state"] == "failure"]

if failing:
    lines = [f":red_circle: {len(failing)} pull request(s) with failing checks"]
    for repo, pr, ci in failing:
        broken = ", ".join(c["name"] for c in ci["checks"] if c["state"] == "failure")
        lines.append(f"• {repo}#{pr['number']} {pr['title']} (@{pr['author']}): {broken}")
    await post_message("#dev", "\n".join(lines))

states = [ci["state"] for *_, ci in results]
return {s: states.count(s) for s in ("success", "pending", "failure")}
