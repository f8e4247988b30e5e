# Request: Do the month-end close: 1) remind overdue invoices 2) list unmatched incoming payments 3) total approved expenses 4) write everything to /finance/close-YYYY-MM.md and mail the link to cfo@acme.com
import asyncio
import re
from datetime import date, timedelta


async def main():
    first_of_month = date.today().replace(day=1)
    month_start = (first_of_month - timedelta(days=1)).replace(day=1)
    label = month_start.strftime("%Y-%m")

    overdue, open_invoices, transactions, expenses = await asyncio.gather(
        list_invoices(status="overdue"),
        list_invoices(status="open"),
        list_transactions(since=month_start.isoformat(), until=first_of_month.isoformat()),
        list_expenses(status="approved", since=month_start.isoformat()),
    )

    # 1) reminders
    reminded = 0
    if overdue and await approve(f"Send {len(overdue)} payment reminders?"):
        for inv in overdue:
            await send_invoice_reminder(inv["id"], tone="firm")
            reminded += 1

    # 2) unmatched payments
    numbers = {inv["number"] for inv in overdue + open_invoices}
    unmatched = []
    for tx in transactions:
        if tx["amount"] <= 0:
            continue
        refs = set(re.findall(r"INV-\d+(?:-\d+)?", tx["reference"].upper()))
        if not refs & numbers:
            unmatched.append(tx)

    # 3) expenses
    expense_totals = {}
    for e in expenses:
        expense_totals[e["currency"]] = expense_totals.get(e["currency"], 0) + e["amount"]

    # 4) report
    lines = [f"# Month-end close {label}", "", f"Reminders sent: {reminded} of {len(overdue)}", "", "## Unmatched payments"]
    lines += [f"- {t['date'][:10]} {t['counterparty']}: {t['amount']:.2f} {t['currency']} ({t['reference']})" for t in unmatched] or ["none"]
    lines += ["", "## Approved expenses"]
    lines += [f"- {cur}: {amount:,.2f}" for cur, amount in sorted(expense_totals.items())] or ["none"]

    doc = await write_document(f"/finance/close-{label}.md", "\n".join(lines), overwrite=True)
    link = await share_file(doc["id"], "cfo@acme.com")
    await send_mail("cfo@acme.com", f"Month-end close {label}", f"The report is here: {link}")
    return {"reminded": reminded, "unmatched": len(unmatched), "expenses": expense_totals, "link": link}


await main()
