# Request: How many new contacts per country do we have with the tag "webinar"? Show only countries with 5+
contacts = await search_contacts(tag="webinar", limit=10000)

per_country = {}
for c in contacts:
    country = (c["country"] or "unknown").upper()
    per_country[country] = per_country.get(country, 0) + 1

filtered = {k: v for k, v in per_country.items() if v >= 5}
dict(sorted(filtered.items(), key=lambda kv: kv[1], reverse=True))
