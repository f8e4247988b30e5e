# Request: Which hour of the day gets the most support mails? use last 500 mails in support folder
from collections import Counter

mails = await search_mail(folder="support", limit=500)
hours = Counter(int(m["received_at"][11:13]) for m in mails)

for hour in range(24):
    n = hours.get(hour, 0)
    print(f"{hour:02d}:00 {'*' * n} {n}")

busiest, n = hours.most_common(1)[0]
print(f"Busiest hour: {busiest:02d}:00-{busiest + 1:02d}:00 with {n} mails")
