"""Python statements evaluated as data: an `ast` compiled to closures with a budget, never `exec` or `eval`.

Plans (`notations/plan/`) are Python programs. The statements between their calls of tools are *pieces*: each is a node
of the flow, and is evaluated here. `piece.py` is the way in: `compile_piece` parses the text of a piece and returns the
function that evaluates it; `functions.py` makes it the function `py:piece` of the expression language.

**Closures.** For each part of the syntax there is a function that takes the node and the `Scope`, and returns a closure
over a frame: `statements.py`, `expressions.py`, `patterns.py` (of `match`) and `calls.py` (calls, lambdas and local
functions). A decision that needs only the text is made once, with the closure. For example, `_assign` looks up the slot
of its target, and the closure that it returns only evaluates and stores.

**Frames.** A frame is a list: the `Evaluation` (budget, current line, printed text), the frame of the enclosing
function, then one slot for each name of the function (`scope.py`).

**Values.** Inside a piece, values are those of Python. Between pieces they are JSON; `values.py` packs what JSON does
not have, such as sets and dates. `operations.py`, `methods.py`, `builtins.py`, `modules.py`, `formatting.py` and
`regex.py` are the operators and functions that a program may use. They spend the budget of the Evaluation first.
"""
