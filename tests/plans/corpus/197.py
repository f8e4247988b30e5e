# Request: Backup: copy the text of all docs in /policies into one document /backup/policies.md with a table of contents
import re

files = sorted(await list_files("/policies"), key=lambda f: f["name"])

toc = []
parts = []
skipped = []

for f in files:
    try:
        content = await read_document(f["id"])
    except (FileNotFoundError, UnicodeDecodeError) as e:
        skipped.append(f"{f['name']} ({e.__class__.__name__})")
        continue
    title = f["name"].rsplit(".", 1)[0].replace("_", " ").title()
    anchor = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    toc.append(f"- [{title}](#{anchor})")
    parts.append(f"## {title}\n\n{content.strip()}\n")

document = "# Policies\n\n" + "\n".join(toc) + "\n\n" + "\n".join(parts)
info = await write_document("/backup/policies.md", document, overwrite=True)
print(f"{len(parts)} documents, {info['size']} bytes")
if skipped:
    print("Skipped:", ", ".join(skipped))
