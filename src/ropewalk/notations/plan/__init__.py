"""Plans: ordinary Python, parsed and compiled to the graph, never executed.

`read.py` is the way in. A program passes through these files:

1. `compile.py` parses the text. `program.py` finds its tools, functions and imports, and `facts.py` what each statement
   reads, binds and changes.
2. `subset.py` refuses what the language does not have; `aliases.py` finds changes that a plan could not show.
3. `emit.py` makes nodes of statements, and explains exits, regions and pieces. `statements.py`, `calls.py`,
   `concurrency.py` and `overlap.py` emit the statements with an effect; `desugar.py` moves effects out of expressions.
4. `check.py`, with `types.py` and the files of types next to it, infers types and reports wrong arguments.

The statements between two effects are evaluated by `expr/python/`.
"""
