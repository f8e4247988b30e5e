# Request: Search my documents for anything mentioning "Project Falcon" and extract all dates and dollar amounts from them.
import re

DATE = re.compile(r"\b(\d{4}-\d{2}-\d{2}|\d{1,2}\.\d{1,2}\.\d{4})\b")
MONEY = re.compile(r"\$\s?(\d{1,3}(?:,\d{3})*(?:\.\d{2})?|\d+(?:\.\d{2})?)\s?([kKmM])?\b")
FACTOR = {"k": 1_000, "m": 1_000_000, "": 1}

findings = {}
unreadable = []
for f in await search_files('"Project Falcon"', limit=50):
    try:
        text = await read_document(f["id"])
    except (FileNotFoundError, UnicodeDecodeError) as exc:
        unreadable.append(f"{f['path']} ({type(exc).__name__})")
        continue
    if "project falcon" not in text.lower():
        continue
    amounts = [
        float(num.replace(",", "")) * FACTOR[suffix.lower()]
        for num, suffix in MONEY.findall(text)
    ]
    findings[f["path"]] = {
        "dates": sorted(set(DATE.findall(text))),
        "amounts": amounts,
        "sum": sum(amounts),
    }

return {"documents": findings, "unreadable": unreadable, "total": sum(d["sum"] for d in findings.values())}
