# Request: Our log file document "deploy.log": list the ERROR lines with their timestamps and group the same messages
import re
from collections import defaultdict

hits = await search_files("deploy.log", limit=1)
if not hits:
    print("deploy.log not found")
else:
    log = await read_document(hits[0]["id"])
    line_re = re.compile(r"^(?P<ts>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)\S*\s+ERROR\s+(?P<msg>.*)$")
    groups = defaultdict(list)

    for line in log.splitlines():
        m = line_re.match(line)
        if m:
            # replace numbers and ids so that equal messages are grouped
            msg = re.sub(r"\b[0-9a-f]{8,}\b|\d+", "<n>", m["msg"])
            groups[msg].append(m["ts"])

    for msg, stamps in sorted(groups.items(), key=lambda kv: len(kv[1]), reverse=True):
        print(f"{len(stamps)}x {msg}\n    first {stamps[0]}, last {stamps[-1]}")
