# Request: Delete merged branches that are older than 2025-01-01 in our three backend repos, and report errors all together.
import asyncio

REPOS = ["api", "worker", "gateway"]
deleted: dict[str, list[str]] = dict.fromkeys(REPOS)
for name in deleted:
    deleted[name] = []


async def drop(repo, branch):
    try:
        if await delete_branch(repo, branch["name"]):
            deleted[repo].append(branch["name"])
    except PermissionError as exc:
        exc.add_note(f"{repo}/{branch['name']}")
        raise


async def clean(repo):
    stale = [b for b in await list_branches(repo)
             if b["merged"] and b["name"] not in ("main", "master") and b["last_commit_at"] < "2025-01-01"]
    results = await asyncio.gather(*(drop(repo, b) for b in stale), return_exceptions=True)
    if errors := [r for r in results if isinstance(r, Exception)]:
        raise ExceptionGroup(repo, errors)


protected, other = [], []
try:
    results = await asyncio.gather(*map(clean, REPOS), return_exceptions=True)
    if groups := [r for r in results if r is not None]:
        raise ExceptionGroup("clean-up", groups)
except* PermissionError as group:
    stack = [group]
    while stack:
        match stack.pop():
            case BaseExceptionGroup(exceptions=inner):
                stack.extend(reversed(inner))
            case exc:
                protected.extend(exc.__notes__)
except* Exception as group:
    other = [repr(e) for e in group.exceptions]

print({repo: len(names) for repo, names in deleted.items()})
print("protected:", ", ".join(protected) or "none")
if other:
    print("unexpected:", *other)
return sum(map(len, deleted.values()))
