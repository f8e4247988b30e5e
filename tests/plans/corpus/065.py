# Request: find duplicate contacts (same email) in the CRM
from itertools import groupby

contacts = [c for c in await search_contacts(limit=5000) if c["email"]]
contacts.sort(key=lambda c: c["email"].lower())

duplicates = []
for email, group in groupby(contacts, key=lambda c: c["email"].lower()):
    members = list(group)
    if len(members) > 1:
        duplicates.append({"email": email, "ids": [m["id"] for m in members], "names": sorted({m["name"] for m in members})})

print(f"Found {len(duplicates)} duplicate emails")
for d in duplicates:
    print(d["email"], "->", ", ".join(d["names"]), d["ids"])
