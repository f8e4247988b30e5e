# Request: Find duplicate contacts in the CRM (same email or same phone, ignoring formatting).
import re
from collections import defaultdict

contacts = await search_contacts(limit=5000)


def norm_phone(phone):
    digits = re.sub(r"\D", "", phone or "")
    digits = re.sub(r"^00", "", digits)
    return digits[-9:] if len(digits) >= 7 else None


groups = defaultdict(set)
by_id = {}
for c in contacts:
    by_id[c["id"]] = c
    if c["email"]:
        groups["email", c["email"].strip().lower()].add(c["id"])
    if (p := norm_phone(c["phone"])):
        groups["phone", p].add(c["id"])

# union-find over shared keys
parent = {cid: cid for cid in by_id}


def find(x):
    while parent[x] != x:
        parent[x] = parent[parent[x]]
        x = parent[x]
    return x


for ids in groups.values():
    head, *tail = ids
    for other in tail:
        parent[find(other)] = find(head)

clusters = defaultdict(list)
for cid in by_id:
    clusters[find(cid)].append(by_id[cid])

dupes = [c for c in clusters.values() if len(c) > 1]
print(f"{len(dupes)} groups of duplicates among {len(contacts)} contacts")
for group in sorted(dupes, key=len, reverse=True):
    print("-", " | ".join(f"{c['name']} <{c['email'] or '–'}> {c['phone'] or ''} [{c['id']}]" for c in group))
