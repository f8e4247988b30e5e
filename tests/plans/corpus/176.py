# Request: Who owns the most documents that are shared outside our company (not acme.com)?
from collections import Counter

owners = Counter()
for f in await list_files("/", recursive=True):
    external = [addr for addr in f["shared_with"] if not addr.endswith("@acme.com")]
    if external:
        owners[f["owner"]] += 1

top = owners.most_common(5)
print("\n".join(f"{owner}: {n}" for owner, n in top) if top else "Nothing is shared externally.")
