"""Plans as a notation: the fields of their documents, their flow, and other flows written as plans.

`read.py` reads the fields and the input. `render.py` compiles a document to the flow that `flow.py` makes, `check.py`
finds its types, and `services.py` does both in a child. `write.py` and the files next to it write a flow as a program;
`nodes.py` and `expressions.py` make nodes of a program, for other notations.
The language itself is in `plans/`.
"""
