"""A program interpreted by closures over its syntax tree; it is never passed to `exec`, `eval` or `compile`.

`language.py` adds to the tables of `expr/python`. `suspending.py` and `statements.py` hold the closures that may
suspend. A node that awaits first evaluates its parts up to the last await, in Python's order, into hidden slots of the
frame; then the ordinary closure of the same node runs on those slots. Slots hold references, never copies, so sharing
is that of Python.

`machine.py` schedules tasks as asyncio does, one turn after the other. `concurrency.py`, `locks.py` and `queues.py` are
the part of `asyncio` that programs use. `limits.py` counts steps, bytes and depth.
"""
