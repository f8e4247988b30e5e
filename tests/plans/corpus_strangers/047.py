# Request: Tag the latest commit of main in "api", "web" and "worker" as the next patch version, based on the VERSION file. All or nothing please.
import re

REPOS = ["api", "web", "worker"]
plan: list[tuple[str, str, str]] = []

for repo in REPOS:
    raw = await get_file(repo, "VERSION")
    if raw is None:
        return f"{repo} has no VERSION file, stopping."
    m = re.fullmatch(r"v?(\d+)\.(\d+)\.(\d+)", raw.strip())
    if not m:
        return f"{repo}: cannot parse version {raw.strip()!r}"
    major, minor, patch = map(int, m.groups())
    [head, *_] = await list_commits(repo, limit=1)
    ci = await get_ci_status(repo, head["sha"])
    if ci["state"] != "success":
        return f"{repo}: CI of {head['sha'][:8]} is {ci['state']}, stopping."
    plan.append((repo, f"v{major}.{minor}.{patch + 1}", head["sha"]))

text = "\n".join(f"{repo}: {tag} -> {sha[:8]}" for repo, tag, sha in plan)
if not await approve(f"Create these tags?\n{text}"):
    return "Not approved."

created = []
try:
    for repo, tag, sha in plan:
        await create_tag(repo, tag, sha, message=f"Release {tag}")
        created.append((repo, tag))
except ValueError as e:
    await post_message("#releases", f"Tagging stopped at {plan[len(created)][0]}: {e}. Created so far: {created or 'none'}")
    raise
else:
    await post_message("#releases", f"New tags:\n{text}")
finally:
    await track_event("release_tagging", {"created": len(created), "planned": len(plan)})
return text
