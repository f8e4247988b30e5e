import re


def sum_up(args):
    """What the server said is text: who has committed, and how often, of the last commits."""
    state = args["_state"]
    authors = re.findall(r"^Author: (.+)$", state["log"], re.MULTILINE)
    commits = len(re.findall(r"^Commit: ", state["log"], re.MULTILINE))
    clean = "nothing to commit" in state.get("status", "")
    return {"state_delta": {"summary": {"commits": commits, "authors": sorted(set(authors)), "clean": clean}}}
