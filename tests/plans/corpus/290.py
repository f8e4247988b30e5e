# Request: find all our API endpoints defined in acme/api routes (files src/routes/users.py, orders.py, billing.py) and list method + path
import asyncio
import re

names = ["users", "orders", "billing"]
sources = await asyncio.gather(*[get_file("acme/api", f"src/routes/{n}.py") for n in names])

route = re.compile(r"@router\.(get|post|put|patch|delete)\(\s*[\"']([^\"']+)[\"']")
endpoints = []
for name, src in zip(names, sources):
    if not src:
        continue
    for method, path in route.findall(src):
        endpoints.append((path, method.upper(), name))

for path, method, name in sorted(endpoints):
    print(f"{method:<7} {path:<40} {name}.py")
print(f"\n{len(endpoints)} endpoints")
