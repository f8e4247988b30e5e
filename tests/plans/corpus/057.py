# Request: Deploy preparation: tag the latest commit on main of api, web and worker with v3.1.0, but only if CI is green on all
import asyncio

repos = ["acme/api", "acme/web", "acme/worker"]
tag = "v3.1.0"


async def latest(repo):
    commits = await list_commits(repo, limit=1)
    sha = commits[0]["sha"]
    ci = await get_ci_status(repo, sha)
    return repo, sha, ci["state"]


states = await asyncio.gather(*map(latest, repos))

if all(state == "success" for _, _, state in states):
    for repo, sha, _ in states:
        try:
            await create_tag(repo, tag, sha, message=f"Release {tag}")
            print(f"{repo}: tagged {sha[:8]}")
        except ValueError as e:
            print(f"{repo}: {e}")
else:
    print("Not tagging, CI is not green everywhere:")
    for repo, sha, state in states:
        print(f"  {repo} @ {sha[:8]}: {state}")
