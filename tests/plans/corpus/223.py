# Request: did anything change in pyproject.toml of acme/sdk between 1.0.0 and 1.1.0?
diff = await get_diff("acme/sdk", "1.0.0", "1.1.0")
entry = next((d for d in diff if d["path"] == "pyproject.toml"), None)

if entry is None:
    print("pyproject.toml did not change.")
else:
    added = [l[1:].strip() for l in entry["patch"].splitlines() if l.startswith("+") and not l.startswith("+++")]
    removed = [l[1:].strip() for l in entry["patch"].splitlines() if l.startswith("-") and not l.startswith("---")]
    print("Added:", *added, sep="\n  ")
    print("Removed:", *removed, sep="\n  ")
