def write(args):
    state = args["_state"]
    count = int(state["tickets"])
    greeting = f"Dear {state['customer']}, thank you for your {'first ticket' if count == 1 else f'{count} tickets'}."
    news = "We have paid your money back." if state["kind"] == "refund" else "Read our page about splices."
    return {"state_delta": {"letter": f"{greeting} {news}"}}
