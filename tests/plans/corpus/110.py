# Request: Remind me what I promised: search my sent mails of the last 7 days for "I will" sentences
import asyncio
import re
from datetime import datetime, timedelta


def extract_promises(body: str) -> list[str]:
    """Return all sentences containing "I will" or "I'll"."""
    sentences = re.split(r"(?<=[.!?])\s+", body)
    return [s.strip() for s in sentences if re.search(r"\bI(?:'ll| will)\b", s)]


async def main() -> None:
    week_ago = (datetime.now() - timedelta(days=7)).isoformat()
    sent = await search_mail("I will", folder="sent", limit=200)

    total = 0
    for mail in sent:
        if mail["received_at"] < week_ago:
            continue
        promises = extract_promises(mail["body"])
        if not promises:
            continue
        total += len(promises)
        print(f"{mail['received_at'][:10]} to {', '.join(mail['to'])} ({mail['subject']}):")
        for promise in promises:
            print(f"  - {promise}")

    if total == 0:
        print("No promises found.")


if __name__ == "__main__":
    asyncio.run(main())
