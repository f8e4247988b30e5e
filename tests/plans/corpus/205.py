# Request: top 5 noisiest files in acme/api: most frequently changed in the last 3 months
from collections import Counter
from datetime import date, timedelta

since = date.today() - timedelta(days=90)
commits = await list_commits("acme/api", since=since.isoformat(), limit=2000)
changes = Counter(path for c in commits for path in c["files"])

for path, n in changes.most_common(5):
    authors = {c["author"] for c in commits if path in c["files"]}
    print(f"{n:>4}x {path} ({len(authors)} authors)")
