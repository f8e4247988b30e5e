# Request: I need all pull requests touching database migrations that are still open, in all repos
import asyncio


async def migrations_in(repo: str, pr: dict):
    files = await get_diff(repo, pr["base"], pr["head"])
    touched = [f["path"] for f in files if "/migrations/" in f["path"] or f["path"].endswith(".sql")]
    return repo, pr, touched


async def main():
    repos = await list_repos("acme")
    names = [r["name"] for r in repos]
    pr_lists = await asyncio.gather(*[list_pull_requests(n) for n in names])

    tasks = []
    for name, prs in zip(names, pr_lists):
        for pr in prs:
            tasks.append(asyncio.create_task(migrations_in(name, pr)))

    found = 0
    for task in asyncio.as_completed(tasks):
        repo, pr, touched = await task
        if touched:
            found += 1
            print(f"{repo}#{pr['number']} {pr['title']} ({pr['author']})")
            for path in touched:
                print(f"    {path}")

    print(f"{found} of {len(tasks)} open PRs touch migrations.")


asyncio.run(main())
