"""Compositions: tools called in sequence, in parallel, by condition, or for each element of a list.

`read.py` reads and checks a document, `compile.py` makes the flow, `render.py` words the result of a run, and
`write.py` writes a flow as a composition.
"""
