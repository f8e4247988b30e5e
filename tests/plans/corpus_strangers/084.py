# Request: Evaluate the dependencies of our Python services: read pyproject/requirements of every Python repo in "acme", find packages pinned to different versions, and print a table.
import asyncio
import re
from collections import defaultdict

PIN = re.compile(r"""^\s*["']?([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*==\s*([\w.]+)""")


def norm(name):
    return re.sub(r"[-_.]+", "-", name).lower()


async def requirements(repo, path="requirements.txt", seen=None):
    seen = set() if seen is None else seen
    if path in seen:
        return
    seen.add(path)
    text = await get_file(repo["name"], path, ref=repo["default_branch"])
    for line in (text or "").splitlines():
        if line.startswith(("-r ", "-c ")):
            async for item in requirements(repo, line[3:].strip(), seen):
                yield item
        elif m := PIN.match(line):
            yield norm(m[1]), m[2]


async def pins(repo):
    return {name: version
            for path in ("requirements.txt", "pyproject.toml")
            async for name, version in requirements(repo, path)}


def version_key(v):
    return [(0, int(x), "") if x.isdigit() else (1, 0, x) for x in v.split(".")]


repos = [r for r in await list_repos("acme") if r["language"] == "Python"]
where: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
for repo, found in zip(repos, await asyncio.gather(*[pins(r) for r in repos])):
    for name, version in found.items():
        where[name][version].append(repo["name"])

conflicts = {n: v for n, v in sorted(where.items()) if len(v) > 1}
for name, versions in conflicts.items():
    newest, *older = sorted(versions, key=version_key, reverse=True)
    print(f"{name:<20} newest {newest} in {', '.join(versions[newest])}")
    for v in older:
        print(f"{'':<20}        {v} in {', '.join(versions[v])}")
return {n: {v: len(r) for v, r in vs.items()} for n, vs in conflicts.items()}
