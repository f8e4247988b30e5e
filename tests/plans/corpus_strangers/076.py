# Request: Process the incoming invoices in the folder /invoices/new: parse "Total: 123.45 EUR", collect the sum per supplier, move the parsed files to /invoices/done and the rest to /invoices/unclear. Use a pipeline of workers.
import asyncio
import re

STOP = object()
inbox: asyncio.Queue = asyncio.Queue(maxsize=4)
outbox: asyncio.Queue = asyncio.Queue()
totals: dict[str, dict[str, float]] = {}
unclear = []


async def produce(n_workers):
    try:
        for f in await list_files("/invoices/new"):
            await inbox.put(f)
    finally:
        for _ in range(n_workers):
            await inbox.put(STOP)


async def parse():
    while (f := await inbox.get()) is not STOP:
        try:
            text = await read_document(f["id"])
        except (UnicodeDecodeError, FileNotFoundError) as exc:
            await outbox.put((f, None, type(exc).__name__))
            continue
        m = re.search(r"^Total:\s*([\d.,]+)\s*([A-Z]{3})\s*$", text, re.M)
        supplier, *_ = text.strip().splitlines() or ["(blank)"]
        await outbox.put((f, (supplier.strip(), float(m[1].replace(",", "")), m[2]) if m else None, "no total"))
    await outbox.put(STOP)


async def collect(n_workers):
    alive = n_workers
    while alive:
        match await outbox.get():
            case f, None, why:
                unclear.append((f["name"], why))
                await move_file(f["id"], "/invoices/unclear")
            case f, (supplier, amount, currency), _:
                per = totals.setdefault(supplier, {})
                per[currency] = per.get(currency, 0) + amount
                await move_file(f["id"], "/invoices/done")
            case sentinel:
                assert sentinel is STOP
                alive -= 1


await asyncio.gather(produce(3), *(parse() for _ in range(3)), collect(3))
return {"totals": {s: {c: round(a, 2) for c, a in sorted(t.items())} for s, t in sorted(totals.items())},
        "unclear": sorted(unclear)}
