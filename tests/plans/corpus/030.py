# Request: Which of our documents in /contracts haven't been modified for over 2 years?
from datetime import datetime, timedelta

files = await list_files("/contracts", recursive=True)
limit = (datetime.now() - timedelta(days=730)).isoformat()

old_files = sorted(
    (f for f in files if f["modified_at"] < limit),
    key=lambda f: f["modified_at"],
)

[{"path": f["path"], "modified": f["modified_at"][:10], "owner": f["owner"]} for f in old_files]
