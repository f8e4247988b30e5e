"""Python statements evaluated as data: an `ast` compiled to closures with a budget, never `exec` or `eval`.

This is the base of the machine that interprets plans (`plans/interpret/`): everything without `await`, classes and
generators. The machine adds to it by the tables of a `Language` (`scope.py`).

**Closures.** For each part of the syntax there is a function that takes the node and the `Scope`, and returns a closure
over a frame: `statements.py`, `expressions.py`, `patterns.py` (of `match`) and `calls.py` (calls, lambdas and local
functions). A decision that needs only the text is made once, with the closure. For example, `_assign` looks up the slot
of its target, and the closure that it returns only evaluates and stores.

**Frames.** A frame is a list: the `Evaluation` (budget, current line, printed text), the frame of the enclosing
function, then one slot for each name of the function (`scope.py`).

**Values.** They are those of Python; `values.py` makes JSON of them. `operations.py`, `methods.py`, `builtins.py`,
`modules.py`, `formatting.py` and `regex.py` are the operators and functions that a program may use. They spend the
budget of the Evaluation first.
"""
