# Request: For the ten biggest files that are shared with people outside acme.example, ask the owners by chat whether that is still needed; one message per owner.
from heapq import nlargest
from itertools import groupby
from operator import itemgetter

DOMAIN = "@acme.example"
UNITS = ("B", "KB", "MB", "GB")


def human(size, unit=0):
    return human(size / 1024, unit + 1) if size >= 1024 and unit < len(UNITS) - 1 else f"{size:.{min(unit, 1)}f} {UNITS[unit]}"


def outsiders(f, _memo={}):
    if (key := f["id"]) not in _memo:
        _memo[key] = tuple(sorted(m for m in f["shared_with"] if not m.lower().endswith(DOMAIN)))
    return _memo[key]


shared = [f for f in await list_files("/", recursive=True) if outsiders(f)]
top = nlargest(10, shared, key=lambda f: (f["size"], f["id"]))
top.sort(key=itemgetter("owner"))

sent = {}
for owner, group in groupby(top, key=itemgetter("owner")):
    files = sorted(group, key=itemgetter("size"), reverse=True)
    person = await get_employee(owner)
    if person is None or not person["active"]:
        manager = await get_employee(person["manager_id"]) if person and person["manager_id"] else None
        if manager is None:
            sent[owner] = None
            continue
        target, intro = manager["email"], f"{person['name']} left us, but still owns"
    else:
        target, intro = owner, "you own"
    text = "\n".join([
        f"Hello, {intro} {len(files)} big file(s) shared outside. Still needed?",
        *(f"• {f['path']} ({human(f['size'])}): {first}" + (f" +{len(rest)}" if rest else "")
          for f in files for first, *rest in [outsiders(f)]),
    ])
    sent[owner] = await post_message("@" + target.split("@")[0], text)

orphans = [o for o, mid in sent.items() if mid is None]
print(f"{len(sent) - len(orphans)} owners asked about {human(sum(f['size'] for f in top))}")
return orphans
