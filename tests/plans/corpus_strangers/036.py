# Request: Print the org chart under the CTO.
from collections import defaultdict

employees = await list_employees()
reports = defaultdict(list)
for e in employees:
    reports[e["manager_id"]].append(e)

cto = next((e for e in employees if "CTO" in e["title"] or "Chief Technology" in e["title"]), None)
if cto is None:
    return "Could not find a CTO."


def walk(person, depth=0):
    yield depth, person
    for child in sorted(reports[person["id"]], key=lambda p: p["name"]):
        yield from walk(child, depth + 1)


def headcount(person):
    return sum(1 + headcount(r) for r in reports[person["id"]])


for depth, p in walk(cto):
    n = headcount(p)
    suffix = f" [{n}]" if n else ""
    print("    " * depth + f"{p['name']} – {p['title']}, {p['location']}{suffix}")

deepest = max(depth for depth, _ in walk(cto))
print(f"\n{headcount(cto)} people, {deepest} levels")
