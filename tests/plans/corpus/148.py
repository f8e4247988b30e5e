# Request: Balance check with timeout, the bank API is slow sometimes: fallback to the warehouse
import asyncio

source = "bank"
try:
    balance = await asyncio.wait_for(get_balance("main"), timeout=10)
except (asyncio.TimeoutError, ConnectionError):
    source = "warehouse"
    rows = await run_sql("SELECT currency, balance FROM balances_latest WHERE account = 'main'")
    balance = {r["currency"]: r["balance"] for r in rows}

{"source": source, "balance": balance}
