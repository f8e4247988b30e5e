# Request: Is CI green on the main branch of all our repos in the acme org?
import asyncio

repos = await list_repos("acme")
sem = asyncio.Semaphore(5)


async def check(repo):
    async with sem:
        try:
            status = await get_ci_status(repo["name"], repo["default_branch"])
            return repo["name"], status["state"]
        except Exception as e:
            return repo["name"], f"error: {e}"


results = await asyncio.gather(*(check(r) for r in repos))
not_green = [(name, state) for name, state in results if state != "success"]

if not not_green:
    print(f"All {len(results)} repos are green ✅")
else:
    print(f"{len(not_green)} of {len(results)} repos are not green:")
    for name, state in sorted(not_green):
        print(f"  {name}: {state}")
