# Request: Find duplicate contacts (same mail or same phone, transitively) and merge their tags into the oldest record; list the groups.
import re

contacts = await search_contacts(limit=5000)
parent: dict[str, str] = {}


def find(x):
    parent.setdefault(x, x)
    while parent[x] != x:
        parent[x] = x = parent[parent[x]]
    return x


def union(a, b):
    ra, rb = find(a), find(b)
    if ra != rb:
        parent[max(ra, rb)] = min(ra, rb)


owner_of: dict[tuple[str, str], str] = {}
for c in contacts:
    find(c["id"])
    keys = []
    if c["email"]:
        keys.append(("mail", c["email"].strip().lower()))
    if c["phone"] and len(digits := re.sub(r"\D", "", c["phone"])) >= 6:
        keys.append(("phone", digits[-9:]))
    for key in keys:
        union(c["id"], owner_of.setdefault(key, c["id"]))

groups: dict[str, list] = {}
for c in contacts:
    groups.setdefault(find(c["id"]), []).append(c)
duplicates = {root: members for root, members in sorted(groups.items()) if len(members) > 1}

for root, members in duplicates.items():
    members.sort(key=lambda c: (c["id"] != root, c["id"]))
    main, *rest = members
    tags = list(dict.fromkeys([*main["tags"], *(t for c in rest for t in c["tags"])]))
    if tags != main["tags"]:
        updated = await update_contact(root, {"tags": tags})
        main |= {"tags": updated["tags"]}
    for c in rest:
        await add_crm_note(c["id"], f"Duplicate of {root} ({main['name']})")
    print(f"{root}: {main['name']} <- {', '.join(c['id'] for c in rest)}; tags {main['tags']}")
return {root: [c["id"] for c in members[1:]] for root, members in duplicates.items()}
