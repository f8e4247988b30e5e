# Request: What's our total revenue from delivered orders this month?
today = now()
first = today.replace(day=1).date().isoformat()

total = 0.0
page = 1
while True:
    result = await list_orders(status="delivered", since=first, page=page)
    for order in result["items"]:
        total += order["total"]
    if page >= result["pages"]:
        break
    page += 1

f"Revenue from delivered orders since {first}: {total:,.2f}"
