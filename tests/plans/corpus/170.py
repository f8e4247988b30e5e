# Request: Do we have commits on main of acme/api that aren't by employees?
employees = await list_employees(active_only=False)
known = {e["email"].lower() for e in employees}
commits = await list_commits("acme/api", limit=1000)

outside = {}
for c in commits:
    email = c["author_email"].lower()
    if email not in known and not email.endswith("[bot]@users.noreply.github.com"):
        outside.setdefault(email, []).append(c["sha"][:7])

if outside:
    for email, shas in outside.items():
        print(f"{email}: {len(shas)} commits ({', '.join(shas[:5])}{', ...' if len(shas) > 5 else ''})")
else:
    print("All commits are by employees.")
