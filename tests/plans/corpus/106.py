# Request: how many unread mails do I have per sender domain?
from collections import Counter

mails = await search_mail(unread_only=True, limit=500)
domains = Counter(m["sender"].rsplit("@", 1)[-1].rstrip(">").lower() for m in mails)
dict(domains.most_common(15))
