# Request: Measure bus factor: for each of our repos, who wrote more than half of the changed lines since 2025-01-01? And which files have only one author?
import asyncio
from collections import Counter, defaultdict

ORG = "acme"


class Repo:
    __slots__ = ("name", "lines", "authors")

    def __init__(self, name, lines=None):
        self.name = name
        self.lines = Counter() if lines is None else lines
        self.authors = defaultdict(set)

    async def load(self, branch):
        for c in await list_commits(self.name, branch=branch, since="2025-01-01", limit=1000):
            who = c["author_email"].lower()
            self.lines[who] += c["additions"] + c["deletions"]
            for path in c["files"]:
                self.authors[path].add(who)
        return self

    @property
    def boss(self):
        if not (total := self.lines.total()):
            return None
        (who, n), *_ = self.lines.most_common(1)
        return (who, n / total) if n * 2 > total else None

    def lonely(self, *, minimum=1):
        return sorted(p for p, a in self.authors.items() if len(a) <= minimum)

    def __lt__(self, other):
        return (self.boss or ("", 0))[1] > (other.boss or ("", 0))[1]


org_wide = Counter()
repos = await asyncio.gather(*(Repo(r["name"]).load(r["default_branch"]) for r in await list_repos(ORG)))
for repo in sorted(repos):
    org_wide.update(repo.lines)
    match repo.boss, repo.lonely():
        case None, files:
            print(f"{repo.name}: shared, {len(files)} single-author files")
        case (who, share), [*files]:
            print(f"{repo.name}: {who} {share:.0%}, {len(files)} single-author files")
            print(*(f"    {f}" for f in files[:3]), sep="\n")
return org_wide.most_common(5)
