import re


def read(args):
    return {"state_delta": {"words": re.findall(r"\w+", args["text"])}}
