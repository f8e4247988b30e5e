# Request: Move all PDF files over 10 MB from /inbox to /archive/large, and undo everything if one move fails.
import asyncio
from contextlib import AsyncExitStack

MB = 1024 ** 2
big = [f for f in await list_files("/inbox", recursive=True)
       if f["mime"] == "application/pdf" and f["size"] > 10 * MB]
moved: list[dict] = []
log: list[str] = []


async def undo(file_id, folder):
    await move_file(file_id, folder)
    log.append(f"restored {file_id} to {folder}")


try:
    async with AsyncExitStack() as stack:
        for f in big:
            origin, _, _ = f["path"].rpartition("/")
            stack.push_async_callback(undo, f["id"], origin or "/")
            moved.append(await move_file(f["id"], "/archive/large"))
            log.append(f"moved {f['name']} ({f['size'] / MB:.1f} MB)")
        stack.pop_all()
except (PermissionError, FileNotFoundError, OSError) as exc:
    log.append(f"failed on {big[len(moved)]['name']}: {exc}")
    moved.clear()
else:
    log.append(f"{len(moved)} files, {sum(f['size'] for f in big) / MB:.1f} MB in total")
finally:
    await post_message("#it", "Clean-up of /inbox: " + log[-1] if log else "nothing to do")

print(*log, sep="\n")
return [f["path"] for f in moved]
