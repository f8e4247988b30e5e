# Request: Track an analytics event "weekly_report_sent" with number of open tickets and open PRs of acme/web
tickets = await search_tickets(status="open")
open_tickets = len(tickets["tickets"])
cursor = tickets["next_cursor"]
while cursor:
    tickets = await search_tickets(status="open", cursor=cursor)
    open_tickets += len(tickets["tickets"])
    cursor = tickets["next_cursor"]

open_prs = len(await list_pull_requests("acme/web"))
await track_event("weekly_report_sent", {"open_tickets": open_tickets, "open_prs": open_prs})
return {"open_tickets": open_tickets, "open_prs": open_prs}
