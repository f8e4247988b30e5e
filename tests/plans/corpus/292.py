# Request: watch three long-running things at once: CI of acme/web main, shipment of 10-12, and event "deploy_done"; report whichever finishes first
import asyncio


async def wait_ci():
    while True:
        status = await get_ci_status("acme/web", "main")
        if status["state"] != "pending":
            return f"CI finished: {status['state']}"
        await asyncio.sleep(15)


async def wait_shipment():
    while True:
        s = await get_shipment("10-12")
        if s and s["status"] == "delivered":
            return "Shipment 10-12 was delivered"
        await asyncio.sleep(60)


async def wait_deploy():
    payload = await wait_for("deploy_done")
    return f"Deploy done: {payload}"


tasks = [asyncio.create_task(coro) for coro in (wait_ci(), wait_shipment(), wait_deploy())]
done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
for task in pending:
    task.cancel()
for task in done:
    print(task.result())
