# Request: Tell me how the vacation stands: per employee in Sales the balance, what is planned until 2025-12-31, and who would have to take more than 10 days before year end; ask those by mail.
import asyncio
from dataclasses import dataclass, field
from datetime import date, timedelta

START, END = date(2025, 7, 1), date(2025, 12, 31)


def weekdays(first, last):
    day = max(first, START)
    while day <= min(last, END):
        if day.weekday() < 5:
            yield day
        day += timedelta(days=1)


@dataclass
class Account:
    person: dict
    balance: float = 0.0
    planned: set = field(default_factory=set)

    def __post_init__(self):
        self.first, _, self.rest = self.person["name"].partition(" ")

    @property
    def open(self):
        return self.balance - len(self.planned)

    async def load(self):
        balance, leave = await asyncio.gather(
            get_leave_balance(self.person["id"]),
            list_leave(START.isoformat(), END.isoformat(), employee_id=self.person["id"]))
        self.balance = balance.get("vacation", 0.0)
        for lv in leave:
            if lv["kind"] == "vacation" and lv["status"] != "rejected":
                self.planned |= {*weekdays(*(date.fromisoformat(lv[k][:10]) for k in ("start", "end")))}
        return self


accounts = [Account(p) for p in await list_employees(department="Sales")]
loaded = [await done for done in asyncio.as_completed([a.load() for a in accounts])]
assert {id(a) for a in loaded} == {id(a) for a in accounts}
accounts.sort(key=lambda a: (-a.open, a.rest))

for a in accounts:
    print(f"{a.person['name']:<22} balance {a.balance:>5.1f} planned {len(a.planned):>3} open {a.open:>5.1f}")
asked = []
for a in accounts:
    if not a.open > 10:
        break
    await send_mail(a.person["email"], "Your vacation in 2025",
                    f"Hi {a.first},\n\nyou still have {a.open:g} days that are not planned. Please enter them soon.")
    asked += [a.person["id"]]
return asked
