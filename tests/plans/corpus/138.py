# Request: Clean duplicates in my drive: same name and same size in different folders. Only list them.
from collections import defaultdict

files = await list_files("/", recursive=True)
groups = defaultdict(list)
for f in files:
    groups[(f["name"], f["size"])].append(f)

dupes = {k: v for k, v in groups.items() if len(v) > 1}
wasted = 0
for (name, size), members in sorted(dupes.items(), key=lambda kv: -kv[0][1]):
    print(f"{name} ({size:,} bytes)")
    for m in members:
        print(f"    {m['path']}")
    wasted += size * (len(members) - 1)

print(f"\n{len(dupes)} groups, {wasted / 1e6:.1f} MB wasted")
