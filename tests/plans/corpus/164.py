# Request: Rotate on-call: this week's on-call person is in the doc /oncall/rota.txt (one name per line, current first). Move the first to the end, save and announce in #ops.
files = await list_files("/oncall")
rota_file = next(f for f in files if f["name"] == "rota.txt")
text = await read_document(rota_file["id"])

names = [line.strip() for line in text.splitlines() if line.strip()]
if len(names) < 2:
    print("The rota has fewer than two names, nothing to rotate.")
else:
    previous, *rest = names
    rotated = rest + [previous]
    await write_document("/oncall/rota.txt", "\n".join(rotated) + "\n", overwrite=True)
    await post_message("#ops", f"On-call this week: *{rotated[0]}* (next: {rotated[1]}). Thanks {previous}!")
    print(f"On-call is now {rotated[0]}")
