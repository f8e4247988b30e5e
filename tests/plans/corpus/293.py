# Request: Quarterly tax: sum VAT (19%) of all paid invoices per month of the last quarter, amounts are gross
from datetime import date
from decimal import ROUND_HALF_UP, Decimal

VAT = Decimal("0.19")
CENT = Decimal("0.01")

today = date.today()
q = (today.month - 1) // 3
year, q = (today.year - 1, 3) if q == 0 else (today.year, q - 1)
months = [f"{year}-{q * 3 + i:02d}" for i in (1, 2, 3)]

invoices = await list_invoices(status="paid", since=f"{months[0]}-01")
vat_total = Decimal(0)
for m in months:
    gross = sum((Decimal(str(i["amount"])) for i in invoices if i["issued"].startswith(m)), Decimal(0))
    vat = (gross - gross / (1 + VAT)).quantize(CENT, rounding=ROUND_HALF_UP)
    vat_total += vat
    print(f"{m}: gross {gross:>12} VAT {vat:>10}")

print(f"Total VAT: {vat_total}")
