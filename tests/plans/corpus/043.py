# Request: Search for the file "budget 2025" and share it with finance@acme.com as editor
files = await search_files("budget 2025")

if not files:
    return "I couldn't find a file matching 'budget 2025'."

# take the one with the best name match, otherwise the first
best = next((f for f in files if "budget" in f["name"].lower() and "2025" in f["name"]), files[0])
link = await share_file(best["id"], "finance@acme.com", role="editor")
return f"Shared {best['name']} with finance@acme.com: {link}"
