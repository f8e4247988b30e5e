# Request: publish the changelog: if the latest tag commit contains "release:" in its message, post it in #announcements
commits = await list_commits("acme/web", limit=30)
release = next((c for c in commits if c["message"].lower().startswith("release:")), None)

if release:
    version = release["message"].split(":", 1)[1].splitlines()[0].strip()
    details = "\n".join(release["message"].splitlines()[1:]).strip() or "No details."
    await post_message("#announcements", f"🚀 {version} is out!\n{details}")
    print(f"Announced {version}")
else:
    print("No release commit among the last 30 commits.")
