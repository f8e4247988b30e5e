# Request: Check in the background if the deployment event arrives while you copy the config files of the services into /backup/configs; never interrupt a copy that has started, and report what was copied when the event came.
import asyncio
import json

SERVICES = ["auth", "billing", "catalog", "search", "notify", "web"]
copied: list[str] = []
invalid: dict[str, str] = {}


async def copy(service):
    text = await get_file(service, "config.json")
    if text is None:
        invalid[service] = "no config"
        return
    try:
        data = json.loads(text)
    except json.JSONDecodeError as exc:
        invalid[service] = f"line {exc.lineno}: {exc.msg}"
        return
    pretty = json.dumps(data, indent=2, sort_keys=True)
    await write_document(f"/backup/configs/{service}.json", pretty, overwrite=True)
    copied.append(service)


async def copy_all():
    current = None
    try:
        for service in SERVICES:
            current = asyncio.ensure_future(copy(service))
            await asyncio.shield(current)
    except asyncio.CancelledError:
        await current
        raise
    finally:
        await track_event("config_backup", {"copied": len(copied)})


backup = asyncio.create_task(copy_all(), name="backup")
deploy = asyncio.create_task(wait_for("deployment"), name="deploy")
done, pending = await asyncio.wait({backup, deploy}, return_when=asyncio.FIRST_COMPLETED)
interrupted = backup in pending
for task in pending:
    task.cancel()
results = await asyncio.gather(*pending, return_exceptions=True)
assert all(r is None or isinstance(r, (dict, asyncio.CancelledError)) for r in results), results
if not interrupted and (exc := backup.exception()):
    raise exc

missing = [s for s in SERVICES if s not in copied and s not in invalid]
print("Interrupted by the deployment" if interrupted else "Complete", f"- {len(copied)} of {len(SERVICES)}")
return {"copied": copied, "invalid": invalid, "missing": missing}
