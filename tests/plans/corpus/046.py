# Request: list the 5 biggest files in my drive
files = await list_files("/", recursive=True)
biggest = sorted(files, key=lambda f: f["size"], reverse=True)[:5]
[
    {"path": f["path"], "size_mb": round(f["size"] / 1024 / 1024, 1)}
    for f in biggest
]
