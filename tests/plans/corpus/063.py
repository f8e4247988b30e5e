# Request: What did we spend on AWS in the last 3 months according to the bank account?
from datetime import datetime, timedelta

# Calculate the start date (approximately three months ago)
end_date = datetime.now()
start_date = end_date - timedelta(days=90)

try:
    transactions = await list_transactions(
        account="main",
        since=start_date.strftime("%Y-%m-%d"),
        until=end_date.strftime("%Y-%m-%d"),
    )

    # Filter AWS transactions
    aws_transactions = []
    for transaction in transactions:
        counterparty = transaction["counterparty"].lower()
        if "aws" in counterparty or "amazon web services" in counterparty:
            aws_transactions.append(transaction)

    # Sum up per month
    monthly_totals = {}
    for transaction in aws_transactions:
        month = transaction["date"][:7]
        if month not in monthly_totals:
            monthly_totals[month] = 0.0
        monthly_totals[month] += abs(transaction["amount"])

    # Print results
    if aws_transactions:
        print("AWS spending in the last 3 months:")
        for month in sorted(monthly_totals.keys()):
            print(f"  {month}: {monthly_totals[month]:,.2f}")
        print(f"Total: {sum(monthly_totals.values()):,.2f}")
    else:
        print("No AWS transactions found in the last 3 months.")
except Exception as e:
    print(f"An error occurred: {e}")
