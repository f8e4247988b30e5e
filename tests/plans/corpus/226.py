# Request: Retry failed payments: transactions table "failed_charges" in the warehouse has customer_id, amount, currency, attempts. Retry those with fewer than 3 attempts, max 5 at a time in parallel
import asyncio

rows = await run_sql("SELECT id, customer_id, amount, currency, attempts FROM failed_charges WHERE attempts < 3")
semaphore = asyncio.Semaphore(5)


async def retry_charge(row):
    async with semaphore:
        try:
            res = await charge_customer(
                row["customer_id"],
                float(row["amount"]),
                currency=row["currency"],
                description="Retry of failed charge",
                idempotency_key=f"retry-{row['id']}-{row['attempts'] + 1}",
            )
            return row, res["status"] == "succeeded", res.get("failure_reason")
        except ConnectionError as exc:
            return row, False, f"connection error: {exc}"


outcomes = await asyncio.gather(*[retry_charge(r) for r in rows])
recovered = sum(float(row["amount"]) for row, ok, _ in outcomes if ok)
failures = [(row, reason) for row, ok, reason in outcomes if not ok]

print(f"Recovered {recovered:,.2f} from {len(outcomes) - len(failures)} charges")
for row, reason in failures:
    print(f"  {row['customer_id']}: {row['amount']} {row['currency']} -> {reason}")
