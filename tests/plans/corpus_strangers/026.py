# Request: Clean up my Downloads folder: move PDFs to /Documents/PDF, images to /Pictures, and propose deleting files over a year old.
import asyncio
from datetime import datetime, timedelta

try:
    files = await list_files("/Downloads")
except FileNotFoundError:
    return "There is no folder /Downloads."

old_limit = now() - timedelta(days=365)


def target(f):
    match f["mime"].split("/"):
        case ["application", "pdf"]:
            return "/Documents/PDF"
        case ["image", _]:
            return "/Pictures"
        case _:
            return None


old = [f for f in files if datetime.fromisoformat(f["modified_at"].replace("Z", "+00:00")) < old_limit]
old_ids = {f["id"] for f in old}
moves = [(f, t) for f in files if f["id"] not in old_ids and (t := target(f)) is not None]
await asyncio.gather(*(move_file(f["id"], t) for f, t in moves))

deleted = 0
if old:
    size = sum(f["size"] for f in old) / 1e6
    listing = ", ".join(f["name"] for f in old[:20]) + (" …" if len(old) > 20 else "")
    if await approve(f"Delete {len(old)} files older than a year ({size:.1f} MB) for good? {listing}"):
        for f in old:
            try:
                await delete_file(f["id"])
                deleted += 1
            except PermissionError:
                print(f"not allowed to delete {f['name']}")

print(f"Moved {len(moves)} files, deleted {deleted}, left {len(files) - len(moves) - deleted} untouched.")
