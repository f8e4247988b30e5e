# Request: Write the changelog between tags for "api": all commits on main from 2025-02-01 to 2025-03-01, grouped by conventional commit type, breaking changes on top, and create a PR comment on #77 with it.
import re
from enum import Enum
from functools import total_ordering


@total_ordering
class Kind(Enum):
    BREAKING = ("!", "Breaking changes")
    FEAT = ("feat", "Features")
    FIX = ("fix", "Fixes")
    PERF = ("perf", "Performance")
    OTHER = ("", "Other")

    def __new__(cls, prefix, title):
        obj = object.__new__(cls)
        obj._value_ = prefix
        obj.title = title
        obj.rank = len(cls.__members__)
        return obj

    def __lt__(self, other):
        return self.rank < other.rank if isinstance(other, Kind) else NotImplemented

    @classmethod
    def _missing_(cls, value):
        return cls.OTHER


HEAD = re.compile(r"(?P<type>[a-z]+)(?:\((?P<scope>[^)]+)\))?(?P<bang>!)?:\s*(?P<text>.+)")


def entries(commits):
    for c in commits:
        head, *rest = c["message"].split("\n")
        m = HEAD.match(head)
        if not m:
            if not head.startswith("Merge "):
                yield Kind.OTHER, None, head, c
            continue
        kind = Kind("!") if m["bang"] or any(r.startswith("BREAKING CHANGE") for r in rest) else Kind(m["type"])
        yield kind, m["scope"], m["text"], c


commits = await list_commits("api", since="2025-02-01", until="2025-03-01", limit=500)
sections: dict[Kind, list[str]] = {}
people = set()
for kind, scope, text, c in entries(commits[::-1]):
    sections.setdefault(kind, []).append(f"- {f'**{scope}**: ' if scope else ''}{text} ({c['sha'][:7]})")
    people |= {c["author"]}

out = "\n\n".join(f"### {k.title}\n" + "\n".join(sections[k]) for k in sorted(sections))
if not out:
    return "No commits in that time"
out += f"\n\nThanks to {', '.join(sorted(people))}"
comment = await comment_on_pull_request("api", 77, out)
return comment, {k.name: len(v) for k, v in sorted(sections.items())}
