"""From a Flow to a program: names become slots, expressions closures, policies wrappers.

`program.py` walks the flow. For each node it makes a `CompileContext` (`site.py`) and calls `compile` of the op, which
returns the step of the node. Then it wraps the step in the features that the node uses:

- `policy.py`: conditions, results, state writes, timeouts, retries and fallbacks; `failures.py` words the failures,
- `calls.py`: calls of tools, and the protocols of what they call; `undo.py`: how a finished call can be taken back,
- `durable.py`: the steps of a run with a journal; `waits.py` and `approvals.py`: waits for events and people,
- `folds.py`: state in regions without an order; `events.py`: events for whoever watches a run.

A program holds no state of a run, so any number of runs can use it.
"""
