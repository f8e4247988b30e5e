# Request: Check that every repo has a LICENSE, a README and a CODEOWNERS file; give me a markdown table.
import asyncio

REQUIRED = {
    "LICENSE": ["LICENSE", "LICENSE.md", "LICENSE.txt"],
    "README": ["README.md", "README.rst", "README"],
    "CODEOWNERS": [".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"],
}
limit = asyncio.Semaphore(10)


async def exists(repo, path):
    async with limit:
        return await get_file(repo["name"], path, ref=repo["default_branch"]) is not None


async def audit(repo):
    row = {}
    for label, paths in REQUIRED.items():
        row[label] = False
        for path in paths:
            if await exists(repo, path):
                row[label] = True
                break
    return repo["name"], row


repos = await list_repos("acme")
results = dict(await asyncio.gather(*map(audit, repos)))

md = ["| Repo | " + " | ".join(REQUIRED) + " |", "|---" * (len(REQUIRED) + 1) + "|"]
for name in sorted(results, key=lambda n: (sum(results[n].values()), n)):
    md.append(f"| {name} | " + " | ".join("✅" if ok else "❌" for ok in results[name].values()) + " |")
complete = sum(all(r.values()) for r in results.values())
md.append(f"\n{complete}/{len(results)} repositories are complete.")
return "\n".join(md)
