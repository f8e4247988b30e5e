# Request: Charge customer c_881 49.90 EUR for the annual plan; the payment gateway is flaky so retry a few times
import asyncio

MAX_ATTEMPTS = 4
key = uuid()
result = None

for attempt in range(1, MAX_ATTEMPTS + 1):
    try:
        result = await charge_customer(
            "c_881",
            49.90,
            currency="EUR",
            description="Annual plan",
            idempotency_key=key,
        )
        break
    except ConnectionError as e:
        print(f"Attempt {attempt} failed: {e}")
        if attempt == MAX_ATTEMPTS:
            raise
        await asyncio.sleep(2 ** attempt)

if result["status"] == "succeeded":
    print(f"Charged 49.90 EUR, charge id {result['charge_id']}")
else:
    print(f"The charge was declined: {result['failure_reason']}")
