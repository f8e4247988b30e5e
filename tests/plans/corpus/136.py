# Request: Find out which of our German customers have a wrong phone number format (should be +49...)
import re

valid = re.compile(r"^\+49\s?\d[\d\s/-]{5,}$")
contacts = await search_contacts(country="DE", limit=5000)

wrong = [c for c in contacts if c["phone"] and not valid.match(c["phone"])]
missing = [c for c in contacts if not c["phone"]]

print(f"{len(contacts)} contacts, {len(wrong)} with wrong format, {len(missing)} without a number\n")
for c in wrong:
    # suggest a normalised number
    digits = re.sub(r"[^\d+]", "", c["phone"])
    if digits.startswith("00"):
        suggestion = "+" + digits[2:]
    elif digits.startswith("0"):
        suggestion = "+49" + digits[1:]
    else:
        suggestion = "?"
    print(f"{c['name']}: {c['phone']} -> {suggestion}")
