# Request: Remind the owners of deals that should have closed already, one chat message per owner.
import asyncio
from datetime import date
from itertools import chain

today = now().date()
OPEN_STAGES = ["qualified", "proposal", "negotiation"]

deals = list(chain.from_iterable(await asyncio.gather(*map(list_deals, OPEN_STAGES))))
overdue = [d for d in deals if d["close_date"] and date.fromisoformat(d["close_date"]) < today]

by_owner: dict[str, list] = {}
for d in overdue:
    by_owner.setdefault(d["owner"], []).append(d)


async def notify(owner, items):
    items.sort(key=lambda d: d["amount"], reverse=True)
    contacts = {d["contact_id"]: await get_contact(d["contact_id"]) for d in items}
    lines = []
    for d in items:
        contact = contacts[d["contact_id"]]
        who = contact["company"] or contact["name"] if contact else "unknown contact"
        late = (today - date.fromisoformat(d["close_date"])).days
        lines.append(f"• {d['name']} ({who}): {d['amount']:,.0f} {d['currency']}, {d['stage']}, {late} days past {d['close_date']}")
    return await post_message(f"@{owner}", "These deals are past their close date, please update them:\n" + "\n".join(lines))


ids = await asyncio.gather(*(notify(o, ds) for o, ds in by_owner.items()), return_exceptions=True)
for (owner, ds), res in zip(by_owner.items(), ids):
    status = f"failed: {res}" if isinstance(res, Exception) else "ok"
    print(f"{owner}: {len(ds)} deals, {status}")
