# Request: Does our readme in acme/sdk still mention python 3.7?
readme = await get_file("acme/sdk", "README.md")
if readme is None:
    print("There is no README.md")
else:
    hits = [(i, l) for i, l in enumerate(readme.split("\n"), 1) if "3.7" in l]
    if hits:
        for i, l in hits:
            print(f"line {i}: {l.strip()}")
    else:
        print("No mention of 3.7.")
