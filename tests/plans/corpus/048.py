# Request: What changed in config files between v1.8 and v1.9 of acme/infra?
diff = await get_diff("acme/infra", "v1.8", "v1.9")

config_ext = (".yaml", ".yml", ".toml", ".json", ".ini")
config_files = [d for d in diff if d["path"].endswith(config_ext)]

total_add = sum(d["additions"] for d in config_files)
total_del = sum(d["deletions"] for d in config_files)

print(f"{len(config_files)} config files changed (+{total_add} -{total_del})\n")
for d in config_files:
    print(f"=== {d['path']} (+{d['additions']} -{d['deletions']})")
    print(d["patch"])
    print()
