# Request: Find security-relevant commits of the last 2 weeks in all repos (message mentions CVE, security or vulnerability)
import asyncio
import re
from datetime import datetime, timedelta

since = (datetime.now() - timedelta(days=14)).date().isoformat()
SECURITY = re.compile(r"CVE-\d{4}-\d+|security|vulnerabilit(?:y|ies)", re.I)


async def scan(repo_name: str) -> list[str]:
    hits = []
    for c in await list_commits(repo_name, since=since):
        m = SECURITY.search(c["message"])
        if m:
            hits.append(f"{repo_name} {c['sha'][:7]} [{m.group(0)}] {c['message'].splitlines()[0]}")
    return hits


repos = await list_repos("acme")
all_hits = await asyncio.gather(*[scan(r["name"]) for r in repos])
flat = [hit for hits in all_hits for hit in hits]

return flat or "No security-relevant commits found."
