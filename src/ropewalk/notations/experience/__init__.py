"""Experiences: a graph of nodes over shared state, with files of prompts, modules and data in its own directory.

`read.py` reads and checks a document, with the kinds of nodes in `nodes.py`. `compile.py` makes the flow; `models.py`
makes the nodes of it that ask a model. `render.py` words the result of a run, and `write.py` writes a flow as an
experience.
"""
