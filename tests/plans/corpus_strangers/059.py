# Request: Send the customers with open deals over 50k a personal mail from their owner's template in /templates, at most 3 mails at a time, and note it in the CRM.
import asyncio
import string

templates: dict[str, string.Template] = {}
for info in await list_files("/templates"):
    owner, dot, ext = info["name"].rpartition(".")
    if dot and ext == "txt":
        templates[owner] = string.Template(await read_document(info["id"]))

OPEN = {"qualified", "proposal", "negotiation"}
deals = [d for d in await list_deals() if d["stage"] in OPEN and d["amount"] > 50_000]
by_contact: dict[str, list] = {}
for d in deals:
    by_contact.setdefault(d["contact_id"], []).append(d)

queue: asyncio.Queue = asyncio.Queue()
for item in sorted(by_contact.items()):
    queue.put_nowait(item)
sent, skipped = [], {}


async def worker():
    while not queue.empty():
        cid, own = queue.get_nowait()
        contact = await get_contact(cid)
        if not contact or not contact["email"]:
            skipped[cid] = "no address"
            continue
        template = templates.get(contact["owner"]) or templates.get("default")
        if template is None:
            skipped[cid] = f"no template for {contact['owner']}"
            continue
        first, *_ = contact["name"].split()
        body = template.safe_substitute(
            first=first, deals=" and ".join(d["name"] for d in own), company=contact["company"] or "your company")
        try:
            mail_id = await send_mail(contact["email"], f"{own[0]['name']}: next steps", body)
        except ValueError as exc:
            skipped[cid] = str(exc)
        else:
            await add_crm_note(cid, f"Mail {mail_id} about {len(own)} deal(s)")
            sent.append(cid)


await asyncio.gather(*(worker() for _ in range(3)))
return {"sent": sorted(sent), "skipped": dict(sorted(skipped.items()))}
