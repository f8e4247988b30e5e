# Request: Move all files in /inbox to folders by year and month of modification
files = await list_files("/inbox")

moved = {}
for f in files:
    year, month = f["modified_at"][:7].split("-")
    target = f"/archive/{year}/{month}"
    await move_file(f["id"], target)
    moved[target] = moved.get(target, 0) + 1

return {"moved": len(files), "per_folder": moved}
