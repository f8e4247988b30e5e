def add(args):
    """The sales of one region: `_item` is its name, `_state` holds all rows."""
    region = args["_item"]
    amount = sum(float(row["amount"]) for row in args["_state"]["rows"] if row["region"] == region)
    return {"state_delta": {"regions": {region: amount}, "total": amount}}


def remark(args):
    regions = args["_state"]["regions"]
    best = max(regions, key=regions.get)
    return {"state_delta": {"remark": f"{best} sold most, {regions[best] / args['_state']['total']:.0%} of everything"}}
