# Request: Draw the org chart of Engineering as an indented list, with the head count under every manager.
from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(order=True)
class Node:
    name: str
    title: str = field(compare=False)
    children: list["Node"] = field(default_factory=list, compare=False, repr=False)

    @property
    def size(self) -> int:
        return sum(1 + child.size for child in self.children)

    def walk(self, depth=0):
        yield depth, self
        for child in sorted(self.children):
            yield from child.walk(depth + 1)

    def __str__(self):
        suffix = f" [{self.size}]" if self.children else ""
        return f"{self.name}, {self.title}{suffix}"


staff = await list_employees(department="Engineering")
nodes = {p["id"]: Node(p["name"], p["title"]) for p in staff}
roots, outside = [], defaultdict(list)
for p in staff:
    parent = nodes.get(p["manager_id"])
    if parent is not None and parent is not nodes[p["id"]]:
        parent.children.append(nodes[p["id"]])
    elif p["manager_id"]:
        outside[p["manager_id"]].append(nodes[p["id"]])
    else:
        roots.append(nodes[p["id"]])

for boss_id, team in outside.items():
    boss = await get_employee(boss_id)
    roots.append(Node(*(boss["name"], boss["title"]) if boss else (boss_id, "unknown"), children=team))

lines = [f"{'    ' * depth}{node}" for root in sorted(roots) for depth, node in root.walk()]
print("\n".join(lines))
return len(staff)
