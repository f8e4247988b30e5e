# Request: Delete merged branches in acme/api that haven't been touched in 90 days
from datetime import datetime, timedelta, timezone

branches = await list_branches("acme/api")
cutoff = datetime.now(timezone.utc) - timedelta(days=90)

stale = [
    b for b in branches
    if b["merged"]
    and not b["protected"]
    and datetime.fromisoformat(b["last_commit_at"].replace("Z", "+00:00")) < cutoff
]

if not stale:
    print("No stale merged branches found.")
else:
    names = ", ".join(b["name"] for b in stale)
    approval = await approve(f"Delete {len(stale)} merged branches in acme/api? {names}")
    if approval:
        deleted, failed = [], []
        for b in stale:
            try:
                await delete_branch("acme/api", b["name"])
                deleted.append(b["name"])
            except PermissionError as e:
                failed.append(f"{b['name']}: {e}")
        print(f"Deleted {len(deleted)} branches.")
        if failed:
            print("Failed:")
            for f in failed:
                print(" -", f)
    else:
        print("Not approved." + (f" Note: {approval.note}" if approval.note else ""))
