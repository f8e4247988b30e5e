# Request: summarize my inbox: group unread mails by thread and show the newest of each
threads = {}
for mail in await search_mail(unread_only=True, limit=200):
    current = threads.get(mail["thread_id"])
    if current is None:
        threads[mail["thread_id"]] = {"latest": mail, "count": 1}
    else:
        current["count"] += 1
        if mail["received_at"] > current["latest"]["received_at"]:
            current["latest"] = mail

for t in sorted(threads.values(), key=lambda t: t["latest"]["received_at"], reverse=True):
    mail = t["latest"]
    preview = " ".join(mail["body"].split())[:80]
    print(f"[{t['count']}] {mail['sender']}: {mail['subject']}\n      {preview}...")
