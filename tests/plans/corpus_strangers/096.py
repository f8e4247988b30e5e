# Request: Simulate cash flow for the next 12 weeks from 2025-09-01: start with the balance of the main account in EUR, add open invoices at their due week, subtract weekly average costs of the last 12 weeks; warn when it goes below 20000.
import asyncio
from datetime import date, timedelta
from itertools import accumulate

START = date(2025, 9, 1)
WEEKS = 12
week = lambda text: (date.fromisoformat(text[:10]) - START).days // 7


class Fx:
    def __init__(self):
        self._tasks: dict[str, asyncio.Task] = {}

    async def __call__(self, amount, currency, /):
        if currency == "EUR":
            return amount
        task = self._tasks.get(currency) or self._tasks.setdefault(
            currency, asyncio.create_task(get_exchange_rate(currency, "EUR")))
        return amount * await task


fx = Fx()
balance, invoices, past = await asyncio.gather(
    get_balance(),
    list_invoices(status="open"),
    list_transactions(since=str(START - timedelta(weeks=WEEKS)), until=str(START - timedelta(days=1))),
)
opening = sum(await asyncio.gather(*(fx(a, c) for c, a in balance.items())))
costs = -sum([await fx(t["amount"], t["currency"]) for t in past if t["amount"] < 0]) / WEEKS

income = [0.0] * WEEKS
beyond = 0
for inv in invoices:
    if (w := week(inv["due"])) >= WEEKS:
        beyond += 1
        continue
    income[max(w, 0)] += await fx(inv["amount"], inv["currency"])

curve = list(accumulate(income, lambda cash, plus: cash + plus - costs, initial=opening))[1:]
labels = [(START + timedelta(weeks=n)).isoformat() for n in range(WEEKS)]
chart = await create_chart("Cash flow forecast", "line", labels, [round(c, 2) for c in curve])
critical = next((label for label, cash in zip(labels, curve) if cash < 20_000), None)
lowest = min(range(WEEKS), key=curve.__getitem__)
print(f"Opening {opening:,.2f}, weekly costs {costs:,.2f}, {beyond} invoices due later")
print(f"Lowest: {curve[lowest]:,.2f} in the week of {labels[lowest]}")
if critical:
    await post_message("#finance", f"Cash falls below 20,000 EUR in the week of {critical}: {chart}")
return critical or "fine"
