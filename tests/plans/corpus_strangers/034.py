# Request: Turn all mails with "bug" in the subject from the last 3 days into tickets, reply with the ticket id and archive them.
from datetime import datetime, timedelta
import re
import textwrap

cutoff = now() - timedelta(days=3)
mails = await search_mail("subject:bug", limit=100)
recent = [m for m in mails if datetime.fromisoformat(m["received_at"].replace("Z", "+00:00")) >= cutoff]


def strip_quotes(body: str) -> str:
    kept = [l for l in body.splitlines() if not l.startswith(">")]
    text = "\n".join(kept)
    text = re.split(r"\n-- ?\n", text, maxsplit=1)[0]
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def priority(m) -> str:
    text = f"{m['subject']} {m['body']}".lower()
    if re.search(r"\b(urgent|asap|production|down)\b", text):
        return "urgent"
    return "high" if "blocker" in text else "normal"


seen_threads = set()
created = []
for mail in reversed(recent):  # oldest first
    if mail["thread_id"] in seen_threads or "ticketed" in mail["labels"]:
        continue
    seen_threads.add(mail["thread_id"])
    title = re.sub(r"^(?:(?:re|fwd?|aw):\s*)+", "", mail["subject"], flags=re.I)
    ticket = await create_ticket(textwrap.shorten(title, 100, placeholder="…"), strip_quotes(mail["body"]), priority=priority(mail), labels=["bug", "from-mail"])
    await reply_mail(mail["id"], f"Hello,\n\nthank you for the report. We track it as {ticket['id']}.\n\nBest regards")
    await label_mail(mail["id"], "ticketed")
    await archive_mail(mail["id"])
    created.append(f"{ticket['id']} [{ticket['priority']}] {ticket['title']}")

return created or "No bug mails in the last three days."
