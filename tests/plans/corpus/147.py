# Request: Count how many of the last 200 commits in acme/core don't reference a ticket (like ABC-123)
import asyncio
import re
from collections import Counter

TICKET_PATTERN = re.compile(r"\b[A-Z]{2,}-\d+\b")


async def main():
    try:
        commits = await list_commits("acme/core", limit=200)
    except Exception as e:
        print(f"Error fetching commits: {e}")
        return

    without = [c for c in commits if not TICKET_PATTERN.search(c["message"])]
    share = len(without) / len(commits) if commits else 0
    print(f"{len(without)} of {len(commits)} commits ({share:.0%}) have no ticket reference")

    for author, n in Counter(c["author"] for c in without).most_common():
        print(f"  {author}: {n}")


asyncio.run(main())
