# Request: If the checkout conversion of today drops below 2% open an urgent ticket for the shop team
THRESHOLD = 0.02


async def check_conversion():
    today = now().date().isoformat()
    try:
        points = await get_metric("checkout_conversion", today, today, granularity="day")
    except KeyError:
        return {"ok": False, "error": "metric checkout_conversion does not exist"}

    if not points or points[-1]["value"] is None:
        return {"ok": True, "message": "no data for today yet"}

    rate = points[-1]["value"]
    if rate >= THRESHOLD:
        return {"ok": True, "rate": rate}

    ticket = await create_ticket(
        title=f"Checkout conversion dropped to {rate:.2%}",
        description=f"The checkout conversion on {today} is {rate:.2%}, below the threshold of {THRESHOLD:.0%}.",
        priority="urgent",
        labels=["shop", "conversion"],
    )
    await post_message("#shop", f"Checkout conversion is only {rate:.2%}, see {ticket['id']}")
    return {"ok": False, "rate": rate, "ticket": ticket["id"]}


await check_conversion()
