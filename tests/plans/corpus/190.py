# Request: Turn the customer feedback in /feedback/*.txt into stats: count of positive/negative words per file
import asyncio
import re

POSITIVE = {"good", "great", "love", "excellent", "fast", "helpful", "easy"}
NEGATIVE = {"bad", "slow", "hate", "broken", "terrible", "bug", "difficult"}

files = [f for f in await list_files("/feedback") if f["name"].endswith(".txt")]
texts = await asyncio.gather(*[read_document(f["id"]) for f in files], return_exceptions=True)

total_pos = total_neg = 0
for f, text in zip(files, texts):
    if isinstance(text, Exception):
        print(f"{f['name']}: could not be read ({text})")
        continue
    words = re.findall(r"[a-z']+", text.lower())
    pos = sum(w in POSITIVE for w in words)
    neg = sum(w in NEGATIVE for w in words)
    total_pos += pos
    total_neg += neg
    mood = "🙂" if pos > neg else "🙁" if neg > pos else "😐"
    print(f"{f['name']:<30} +{pos} -{neg} {mood}")

print(f"\nTotal: +{total_pos} -{total_neg}")
