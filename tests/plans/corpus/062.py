# Request: Create a ticket for every TODO in src/app.py of acme/web
source = await get_file("acme/web", "src/app.py")

if source is None:
    print("src/app.py does not exist.")
else:
    count = 0
    for line_no, line in enumerate(source.splitlines(), start=1):
        if "TODO" in line:
            text = line.split("TODO", 1)[1].lstrip(":( ").strip()
            await create_ticket(
                title=f"TODO: {text[:80]}",
                description=f"Found in src/app.py line {line_no}:\n\n    {line.strip()}",
                priority="low",
                labels=["todo", "tech-debt"],
            )
            count += 1
    print(f"Created {count} tickets")
