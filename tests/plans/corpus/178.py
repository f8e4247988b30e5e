# Request: Set aside 15% of our EUR balance for taxes: tell me how much that is and, if it's over 10,000, tell @tax-advisor too
balance = await get_balance("main")
eur = balance.get("EUR", 0)
share = round(eur * 0.15, 2)

notified = False
if share > 10_000:
    await post_message("@tax-advisor", f"We're setting aside {share:,.2f} EUR for taxes.")
    notified = True

return {"balance": eur, "set_aside": share, "notified": notified}
