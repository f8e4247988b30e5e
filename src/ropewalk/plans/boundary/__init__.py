"""The boundary: child processes in which the programs of models are read, checked and computed.

A program of a model may want all time, memory and stack that there is, or crash the interpreter. So none of its text is
parsed, checked or evaluated in the process that serves other requests. The parent sends messages to a child and judges
what comes back: a child says what a program *asks for*, the parent decides what it gets.

| file | noun |
|---|---|
| `frames.py` | a message: JSON with its length before it, at most 16 MB |
| `sandbox.py` | what a child gives up before it reads its first message |
| `child.py` | the loop of a child, and the link over which a service may ask the parent |
| `forker.py` | the process with one thread that forks children |
| `forks.py` | how the parent gets a child: from the forker, or as a process of its own |
| `watch.py` | the thread that kills a child that exceeds its limits |
| `pool.py` | the pool: leases of children, one program at a time in each |

The boundary does not know what the messages mean. Services do (`notations/plan/services.py`). A service is a function
of a message and the link, and runs in the child.
"""
