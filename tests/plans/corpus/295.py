# Request: process these customer ids with at most 3 concurrent lookups and give me name + lifetime value: c_1 to c_30
import asyncio


async def worker(queue, results):
    while True:
        cid = await queue.get()
        try:
            contact = await get_contact(cid)
            if contact:
                invoices = await list_invoices(status="paid", customer_id=cid)
                results[cid] = (contact["name"], sum(i["amount"] for i in invoices))
        except Exception as e:
            print(f"{cid}: {e}")
        finally:
            queue.task_done()


async def main():
    queue = asyncio.Queue()
    for i in range(1, 31):
        queue.put_nowait(f"c_{i}")

    results = {}
    workers = [asyncio.create_task(worker(queue, results)) for _ in range(3)]
    await queue.join()
    for w in workers:
        w.cancel()

    for cid, (name, value) in sorted(results.items(), key=lambda kv: kv[1][1], reverse=True):
        print(f"{cid:<6}{name:<30}{value:>12,.2f}")


asyncio.run(main())
