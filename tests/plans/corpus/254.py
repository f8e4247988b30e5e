# Request: tell me how much storage each owner uses, human readable
def human(n):
    for unit in ("B", "KB", "MB", "GB"):
        if n < 1024:
            return f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} TB"


usage = {}
for f in await list_files("/", recursive=True):
    usage[f["owner"]] = usage.get(f["owner"], 0) + f["size"]

for owner, size in sorted(usage.items(), key=lambda x: x[1], reverse=True):
    print(f"{owner:<30} {human(size):>10}")
