# Request: For each open PR in acme/core compute size (S/M/L/XL by changed lines) and print a table; label not needed
import asyncio


def size_label(n: int) -> str:
    match n:
        case _ if n < 50:
            return "S"
        case _ if n < 250:
            return "M"
        case _ if n < 1000:
            return "L"
        case _:
            return "XL"


prs = await list_pull_requests("acme/core")
diffs = await asyncio.gather(*[get_diff("acme/core", pr["base"], pr["head"]) for pr in prs])

for pr, files in sorted(zip(prs, diffs), key=lambda x: x[0]["number"]):
    lines = sum(f["additions"] + f["deletions"] for f in files)
    print(f"#{pr['number']:<5} {size_label(lines):<3} {lines:>6} lines {len(files):>4} files  {pr['title'][:50]}")
