# Request: Merge the two contacts c_5 (keep) and c_9: union the tags, keep phone/company if missing, note on c_5
keep = await get_contact("c_5")
other = await get_contact("c_9")

if keep is None or other is None:
    print("One of the contacts doesn't exist.")
else:
    fields = {}
    for key in ("email", "phone", "company", "country"):
        if not keep[key] and other[key]:
            fields[key] = other[key]

    merged_tags = sorted(set(keep["tags"]) | set(other["tags"]))
    if merged_tags != sorted(keep["tags"]):
        fields["tags"] = merged_tags

    lc = [d for d in (keep["last_contacted"], other["last_contacted"]) if d]
    if lc and max(lc) != keep["last_contacted"]:
        fields["last_contacted"] = max(lc)

    if fields:
        await update_contact(keep["id"], fields)
    await add_crm_note(keep["id"], f"Merged with {other['id']} ({other['name']}), changed fields: {', '.join(fields) or 'none'}")
    await update_contact(other["id"], {"tags": ["duplicate"]})
    print(f"Merged. Changed: {fields}")
