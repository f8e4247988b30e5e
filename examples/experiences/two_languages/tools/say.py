def say(args):
    """`_edge_inputs` has what the predecessor gave: of a for_each the list of its rounds."""
    return {"state_delta": {"said": "; ".join(args["_edge_inputs"]["count"])}}
