# Request: when did we last talk to Initech?
contacts = await search_contacts("Initech")
dates = [(c["last_contacted"], c["name"]) for c in contacts if c["last_contacted"]]
if dates:
    when, who = max(dates)
    print(f"Last contact: {when[:10]} with {who}")
else:
    print("No contact with Initech recorded.")
