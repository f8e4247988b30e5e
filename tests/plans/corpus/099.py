# Request: Who are the code owners of src/payments in acme/api? There's a CODEOWNERS file.
content = await get_file("acme/api", ".github/CODEOWNERS") or await get_file("acme/api", "CODEOWNERS")

if content is None:
    print("No CODEOWNERS file.")
else:
    owners = []
    for line in content.splitlines():
        line = line.split("#")[0].strip()
        if not line:
            continue
        pattern, *names = line.split()
        if pattern == "*" or "src/payments".startswith(pattern.strip("/").rstrip("*").rstrip("/")):
            owners = names  # the last matching pattern wins
    print("Owners of src/payments:", ", ".join(owners) or "nobody")
