# Request: Prepare my 1:1 with Jonas: his open tickets, his PRs in acme/web, his vacation days, his last week's calendar load
import asyncio
from datetime import date, datetime, timedelta

today = date.today()
week_ago = today - timedelta(days=7)

jonas = await get_employee("jonas@acme.com")

tickets, prs, balance, events = await asyncio.gather(
    search_tickets(assignee="jonas", status="in_progress"),
    list_pull_requests("acme/web"),
    get_leave_balance(jonas["id"]),
    list_events("jonas@acme.com", week_ago.isoformat(), today.isoformat()),
)

meeting_hours = sum(
    (datetime.fromisoformat(e["end"]) - datetime.fromisoformat(e["start"])).total_seconds() / 3600
    for e in events
    if e["response"] == "accepted"
)

print(f"1:1 with {jonas['name']} ({jonas['title']})")
print("=" * 40)
print("\nTickets in progress:")
for t in tickets["tickets"]:
    print(f"  {t['id']} [{t['priority']}] {t['title']}")
print("\nOpen PRs:")
for pr in prs:
    if pr["author"] == "jonas":
        print(f"  #{pr['number']} {pr['title']} ({pr['approvals']} approvals)")
print(f"\nVacation days left: {balance.get('vacation', 'n/a')}")
print(f"Meeting hours last week: {meeting_hours:.1f}")
