# Request: Watch the mailbox for the answers of the five suppliers to our RFQ; search for all of them in parallel and stop as soon as three of them answered.
import asyncio
import re

suppliers = ["sales@nordmet.example", "rfq@alutek.example", "office@brasco.example",
             "angebot@fein.example", "info@steelix.example"]
MONEY = re.compile(r"(?P<cur>EUR|USD|€|\$)\s*(?P<num>\d[\d.,]*)")


def parse(body):
    if not (m := MONEY.search(body)):
        return None
    num = m["num"].rstrip(".,")
    if re.search(r",\d{2}$", num):
        num = num.replace(".", "").replace(",", ".")
    return {"€": "EUR", "$": "USD"}.get(m["cur"], m["cur"]), float(num.replace(",", ""))


async def answer(address):
    for mail in await search_mail(f"from:{address} subject:RFQ"):
        if quote := parse(mail["body"]):
            return address, quote
    raise LookupError(address)


pending = {asyncio.create_task(answer(s)) for s in suppliers}
quotes, silent = {}, []
try:
    while pending and len(quotes) < 3:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            if (exc := task.exception()) is not None:
                silent.append(exc.args[0])
                continue
            who, quote = task.result()
            quotes[who] = quote
finally:
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)

enough = len(quotes) >= 3
if not enough:
    await asyncio.gather(*(send_mail(s, "Reminder: RFQ", "We are still waiting for your quote.") for s in sorted(silent)))
return {"enough": enough, "quotes": quotes if enough else dict(sorted(quotes.items()))}
