# Request: text everyone in #random who won the raffle: pick 3 random employees
import random

employees = await list_employees()
winners = random.sample(employees, k=min(3, len(employees)))
names = ", ".join(w["name"] for w in winners)
await post_message("#random", f"🎁 The winners of this week's raffle are: {names}")
print(names)
