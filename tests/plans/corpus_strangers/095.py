# Request: Build the tree of sizes of /projects: per folder the total size with its subfolders, print the folders over 5 % of everything, and tell which three files I could delete first (old and big, last change before 2024).
from collections import UserDict
from functools import cached_property
from posixpath import dirname


class Folder(UserDict):
    def __init__(self, name=""):
        super().__init__()
        self.name, self.files = name, []

    def __missing__(self, name):
        self[name] = child = Folder(name)
        return child

    def dig(self, path):
        head, _, tail = path.strip("/").partition("/")
        return self[head].dig(tail) if head else self

    @cached_property
    def total(self):
        return sum(f["size"] for f in self.files) + sum(sub.total for sub in self.values())

    def walk(self, prefix=""):
        here = f"{prefix}/{self.name}" if self.name else prefix
        yield here or "/", self
        for _, sub in sorted(self.items(), key=lambda kv: -kv[1].total):
            yield from sub.walk(here)


root = Folder()
try:
    files = await list_files("/projects", recursive=True)
except FileNotFoundError:
    return "There is no folder /projects"
for f in files:
    root.dig(dirname(f["path"])).files.append(f)

if not root.total:
    return "Everything is empty"
for path, folder in root.walk():
    if (share := folder.total / root.total) > 0.05:
        depth = path.count("/") - 1
        print(f"{'  ' * depth}{path.rsplit('/', 1)[-1] or '/'} {folder.total / 1e6:.1f} MB ({share:.0%})")

old = sorted((f for f in files if f["modified_at"] < "2024"), key=lambda f: (-f["size"], f["path"]))
first, second, third, *_ = [*(f["path"] for f in old), None, None, None]
return [p for p in (first, second, third) if p]
