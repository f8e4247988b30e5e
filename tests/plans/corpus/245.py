# Request: get me a link to share the newest file in /marketing with press@news.com as viewer
try:
    files = await list_files("/marketing")
except FileNotFoundError:
    files = []

if not files:
    return "There are no files in /marketing."

newest = max(files, key=lambda f: f["modified_at"])
approval = await approve(f"Share '{newest['name']}' with the external address press@news.com?")
if not approval:
    return f"Not shared. {approval.note or ''}".strip()

link = await share_file(newest["id"], "press@news.com", "viewer")
return {"file": newest["name"], "link": link}
