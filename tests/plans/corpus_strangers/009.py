# Request: Send payment reminders for overdue invoices: friendly under 14 days, firm under 45, final after that. Ask before sending final ones.
from datetime import date
from collections import Counter

today = now().date()
sent = Counter()
report = []


def tone_for(days: int) -> str:
    match days:
        case d if d < 14:
            return "friendly"
        case d if d < 45:
            return "firm"
        case _:
            return "final"


invoices = await list_invoices(status="overdue")
for inv in sorted(invoices, key=lambda i: i["due"]):
    days = (today - date.fromisoformat(inv["due"][:10])).days
    tone = tone_for(days)

    if tone == "final":
        ok = await approve(
            f"Send FINAL reminder for invoice {inv['number']} ({inv['amount']:.2f} {inv['currency']}, "
            f"{days} days overdue) to {inv['customer_email']}?"
        )
        if not ok:
            report.append(f"{inv['number']}: final reminder declined{f' – {ok.note}' if ok.note else ''}")
            continue

    mail_id = await send_invoice_reminder(inv["id"], tone=tone)
    sent[tone] += 1
    report.append(f"{inv['number']}: {tone} reminder sent ({days} days overdue, mail {mail_id})")

print(", ".join(f"{n} {t}" for t, n in sent.items()) or "no reminders sent")
print(*report, sep="\n")
