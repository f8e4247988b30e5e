# Request: Give me all the attachments from mails by supplier@parts.com bigger than 5MB
mails = await search_mail("from:supplier@parts.com", limit=500)
big = [
    (att["name"], att["size"], mail["subject"])
    for mail in mails
    for att in mail["attachments"]
    if att["size"] > 5 * 1024 * 1024
]
for name, size, subject in sorted(big, key=lambda x: x[1], reverse=True):
    print(f"{name} ({size / 1048576:.1f} MB) in '{subject}'")
