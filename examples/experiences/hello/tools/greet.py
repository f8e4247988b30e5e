def greet(args):
    return {"state_delta": {"greeting": f"hello, {args['name']}"}}
