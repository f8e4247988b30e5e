"""Chains: a list of nodes that run one after another, with jumps, loops and dependencies between them.

`read.py` reads and checks a document, with the kinds of nodes in `node_types.py`. `compile.py` makes the flow,
`render.py` words the result of a run, and `write.py` writes a flow as a chain.
"""
