"""A program interpreted by closures over its syntax tree; it is never passed to `exec`, `eval` or `compile`.

`language.py` extends the tables of `expr/python` by what plans have in addition. `suspending.py` and `statements.py` hold
the closures of what may suspend. A node that awaits first evaluates its parts up to the last await, in Python's order,
into hidden slots of the frame; then the ordinary closure of the same node runs on those slots. Slots hold references,
never copies, so sharing is Python's.

`machine.py` schedules tasks as asyncio does, one turn after the other. `concurrency.py` is what programs use of
`asyncio`. `limits.py` counts steps, bytes and depth.
"""
