# Request: what's the ratio of refunded to delivered orders in 2025?
delivered = await list_orders(status="delivered", since="2025-01-01", until="2026-01-01", per_page=1)
refunded = await list_orders(status="refunded", since="2025-01-01", until="2026-01-01", per_page=1)

d, r = delivered["total"], refunded["total"]
print(f"{r} refunded / {d} delivered = {r / d:.2%}" if d else "No delivered orders in 2025.")
