# Request: Summarize my unread mail by sender domain, and tell me which ones have attachments over 5 MB.
from collections import Counter
from email.utils import parseaddr

mails = await search_mail(unread_only=True, limit=200)


def domain(sender: str) -> str:
    _, addr = parseaddr(sender)
    return addr.rpartition("@")[2].lower() or "unknown"


by_domain = Counter(domain(m["sender"]) for m in mails)
big = [
    (m, a)
    for m in mails
    for a in m["attachments"]
    if a["size"] > 5 * 1024 ** 2
]

print(f"{len(mails)} unread mails from {len(by_domain)} domains")
for dom, n in by_domain.most_common(10):
    print(f"  {n:>3} × {dom}")

if big:
    print("\nLarge attachments:")
    for mail, att in sorted(big, key=lambda x: x[1]["size"], reverse=True):
        print(f"  {att['name']} ({att['size'] / 1024 ** 2:.1f} MB) in “{mail['subject']}” from {mail['sender']}")
else:
    print("\nNo attachments over 5 MB.")
