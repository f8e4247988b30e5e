"""The engine: compiles a Flow to a program, and runs programs.

Read in this order. `engine.py` is the way in: it opens a run in the store, finds or compiles the program, and ends the
run. `compile/` makes the program from the flow. `run.py` is one execution, and holds everything that belongs to it.
`region.py` executes the nodes of a region; `frame.py` says where their values are. The rest serves these:

- concurrency and time: `lazy_task_group.py`, `timeouts.py`, `offload.py` (slow expressions leave the event loop),
- pauses for events and approvals: `waits.py`,
- large maps on workers: `map_chunks.py`, `chunk_run.py`; `ports.py` has the protocols that other packages implement,
- a flow as a tool of another flow: `flow_tool.py`.

A *node slot* is a node as the compiler knows it, a *frame* holds the values of one run of one region, and a *step
record* says which nodes of a frame ran, and when.
"""
