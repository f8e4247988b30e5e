import json
from urllib.request import urlopen


def fetch(args):
    """One page; a server that answers 503 makes this raise, and the node is tried again."""
    with urlopen(args["url"], timeout=10) as answer:
        return {"state_delta": {"pages": [json.load(answer)]}}


def title(args):
    page = args["page"]
    if "title" not in page:
        raise ValueError(f"page {page['number']} has no title")
    return {"state_delta": {"titles": [page["title"]]}}


def report(args):
    state = args["_state"]
    return {"state_delta": {"report": f"{len(state['titles'])} of {len(state['pages'])} pages have a title"}}
