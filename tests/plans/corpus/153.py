# Request: Send payment reminders with increasing tone: 1-14 days friendly, 15-30 firm, >30 final. Ask me before the final ones.
from datetime import date


def days_overdue(invoice: dict) -> int:
    return (date.today() - date.fromisoformat(invoice["due"][:10])).days


def pick_tone(days: int) -> str | None:
    if days <= 0:
        return None
    if days <= 14:
        return "friendly"
    if days <= 30:
        return "firm"
    return "final"


log: list[str] = []
final_ones: list[tuple[dict, int]] = []

for invoice in await list_invoices(status="overdue"):
    days = days_overdue(invoice)
    tone = pick_tone(days)
    if tone is None:
        continue
    if tone == "final":
        final_ones.append((invoice, days))
        continue
    await send_invoice_reminder(invoice["id"], tone=tone)
    log.append(f"{invoice['number']}: {tone} ({days} days)")

if final_ones:
    question = "Send FINAL reminders for these invoices?\n" + "\n".join(
        f"- {inv['number']}: {inv['customer_email']}, {inv['amount']:.2f} {inv['currency']}, {days} days overdue"
        for inv, days in final_ones
    )
    decision = await approve(question)
    if decision:
        for inv, days in final_ones:
            await send_invoice_reminder(inv["id"], tone="final")
            log.append(f"{inv['number']}: final ({days} days)")
    else:
        log.append(f"{len(final_ones)} final reminders not sent ({decision.note or 'declined'})")

print("\n".join(log))
