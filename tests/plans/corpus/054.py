# Request: cancel order 10-991 if it hasn't shipped
try:
    order = await cancel_order("10-991", reason="Requested by customer")
    result = f"Order {order['id']} is now {order['status']}."
except KeyError:
    result = "There is no order 10-991."
except ValueError as e:
    result = f"Could not cancel: {e}"

result
