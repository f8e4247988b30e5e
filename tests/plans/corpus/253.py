# Request: Compare two versions of the document "pricing.md" in git refs v1 and main, show removed and added lines
import difflib

old = await get_file("acme/docs", "pricing.md", ref="v1")
new = await get_file("acme/docs", "pricing.md", ref="main")

if old is None or new is None:
    print("pricing.md is missing in", "v1" if old is None else "main")
else:
    diff = difflib.unified_diff(old.splitlines(), new.splitlines(), "v1", "main", lineterm="", n=1)
    print("\n".join(diff) or "No differences.")
