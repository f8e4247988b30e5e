# Request: Tell me which of our repos have no CI, no README or no LICENSE
import asyncio

repos = await list_repos("acme")


async def inspect(repo):
    name, ref = repo["name"], repo["default_branch"]
    readme, license_, ci = await asyncio.gather(
        get_file(name, "README.md", ref),
        get_file(name, "LICENSE", ref),
        get_ci_status(name, ref),
    )
    missing = []
    if readme is None:
        missing.append("README")
    if license_ is None:
        missing.append("LICENSE")
    if not ci["checks"]:
        missing.append("CI")
    return name, missing


for name, missing in await asyncio.gather(*map(inspect, repos)):
    if missing:
        print(f"{name}: missing {', '.join(missing)}")
