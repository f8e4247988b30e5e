# Request: Which of the repos in the "acme" org have a CODEOWNERS file, and where do they keep it?
import asyncio

PLACES = ("CODEOWNERS", ".github/CODEOWNERS", "docs/CODEOWNERS")
gate = asyncio.Semaphore(5)


async def locate(repo):
    for place in PLACES:
        async with gate:
            text = await get_file(repo["name"], place, ref=repo["default_branch"])
        if text is None:
            continue
        for line in text.splitlines():
            line, *_ = line.split("#", 1)
            if line.strip():
                break
        else:
            return place, "empty"
        return place, line.split()[1:]
    return None


repos = [r for r in await list_repos("acme") if not r["archived"]]
found = dict(zip((r["name"] for r in repos), await asyncio.gather(*[locate(r) for r in repos])))
missing = sorted(name for name, hit in found.items() if hit is None)
for name, hit in sorted(found.items()):
    match hit:
        case None:
            print(f"{name}: none")
        case (place, "empty"):
            print(f"{name}: {place} (has no rules)")
        case (place, [first, *others]):
            print(f"{name}: {place}, first rule owned by {first}" + (f" and {len(others)} more" if others else ""))
        case (place, []):
            print(f"{name}: {place}, first rule has no owner")
return missing
