# Request: Triage the support inbox: classify unread mails by keywords, create a ticket for bugs, look up the order for order questions, forward the invoices to finance, label everything; four mails at once, but never two of the same thread at the same time.
import asyncio
import re
from collections import Counter, defaultdict

slots = asyncio.Semaphore(4)
thread_locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
tickets_by_thread: dict[str, str] = {}
stats = Counter()
handlers = defaultdict(lambda: (other, "other"))


def handles(pattern, label):
    def deco(fn):
        handlers[re.compile(pattern, re.I)] = fn, label
        return fn
    return deco


@handles(r"\b(crash|bug|error|exception)\b", "bug")
async def bug(mail, match):
    if tid := tickets_by_thread.get(mail["thread_id"]):
        await add_ticket_comment(tid, mail["body"])
        return
    ticket = await create_ticket(mail["subject"], mail["body"], labels=["bug", match[0].lower()])
    tid = tickets_by_thread[mail["thread_id"]] = ticket["id"]
    await reply_mail(mail["id"], f"Thank you, we track this as {tid}.")


@handles(r"\border\s+#?([A-Z0-9-]*\d+)", "order")
async def order(mail, match):
    try:
        o = await get_order(match[1])
    except KeyError:
        await reply_mail(mail["id"], f"We cannot find the order {match[1]}.")
    else:
        await reply_mail(mail["id"], f"Your order {o['id']} is {o['status']}.")


@handles(r"\b(invoice|rechnung)\b", "invoice")
async def invoice(mail, match):
    files = [a["document_id"] for a in mail["attachments"]] or None
    await send_mail("finance@acme.example", "Fwd: " + mail["subject"], mail["body"], attachments=files)


async def other(mail, match):
    stats["from " + mail["sender"].rpartition("@")[2]] += 1


async def triage(mail):
    async with thread_locks[mail["thread_id"]], slots:
        text = f"{mail['subject']}\n{mail['body']}"
        pattern, match = next(((p, m) for p in handlers if p and (m := p.search(text))), (None, None))
        fn, label = handlers[pattern]
        await fn(mail, match)
        await label_mail(mail["id"], label)
        stats[label] += 1


await asyncio.gather(*(triage(m) for m in reversed(await search_mail(unread_only=True))))
return dict(sorted(stats.items()))
