# Request: Delete all files larger than 1 GB that nobody but me (owner paul@acme.com) has access to
GB = 1024 ** 3

files = await list_files("/", recursive=True)
mine = [
    f for f in files
    if f["size"] > GB and f["owner"] == "paul@acme.com" and not f["shared_with"]
]

if not mine:
    print("No such files.")
else:
    listing = "\n".join(f"{f['path']} ({f['size'] / GB:.2f} GB)" for f in mine)
    approval = await approve(f"Permanently delete these {len(mine)} files?\n{listing}")
    if approval:
        freed = 0
        for f in mine:
            try:
                await delete_file(f["id"])
            except PermissionError:
                print(f"No permission to delete {f['path']}")
            else:
                freed += f["size"]
        print(f"Freed {freed / GB:.1f} GB")
    else:
        print("Aborted.")
