# Request: Get everything ready for the board meeting: collect the newest version of each "board_*.pdf" file and share with board@acme.com
import re

files = await search_files("board_", limit=100)

latest = {}
for f in files:
    m = re.fullmatch(r"(board_[a-z]+)(?:_v(\d+))?\.pdf", f["name"])
    if not m:
        continue
    base = m.group(1)
    version = int(m.group(2) or 1)
    if base not in latest or version > latest[base][0]:
        latest[base] = (version, f)

links = []
for base, (version, f) in sorted(latest.items()):
    link = await share_file(f["id"], "board@acme.com")
    links.append(f"{base} (v{version}): {link}")

await send_mail("board@acme.com", "Documents for the board meeting", "\n".join(links))
print("\n".join(links))
