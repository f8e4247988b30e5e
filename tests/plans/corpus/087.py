# Request: Update the close date of all deals in negotiation that are already past to end of next month
import calendar
from datetime import date

today = date.today()
y, m = (today.year + 1, 1) if today.month == 12 else (today.year, today.month + 1)
end_of_next_month = date(y, m, calendar.monthrange(y, m)[1]).isoformat()

updated = []
for deal in await list_deals(stage="negotiation"):
    if deal["close_date"] and deal["close_date"] < today.isoformat():
        await update_deal(deal["id"], close_date=end_of_next_month)
        updated.append(deal["name"])

print(f"Moved {len(updated)} deals to {end_of_next_month}:", *updated, sep="\n- ")
