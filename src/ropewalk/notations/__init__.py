"""The notations: each a pure function from its document to a Flow. Adding one adds a line to NOTATIONS.

`registry.py` finds the notation of a document and compiles it. Chains, compositions and experiences have a folder each,
with the same files: `read.py` reads and checks the document, `compile.py` makes the flow, `render.py` writes the result
of a run in the words of the notation, and `write.py` writes a flow as a document. Plans, which are Python, have the
folder `plan/`. The other notations are one file each: `agent.py`, `composite.py`, `runchain.py` and `flow.py`.

All share `fields.py` (documents read field by field), `binding.py` (references in documents), `records.py` (definitions
and results as Python objects), `undo.py`, and `writing.py` (the parts that all writers have in common).
"""
