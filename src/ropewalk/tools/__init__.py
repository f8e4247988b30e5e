"""Tools: their definitions, the index that knows them, and the Runner that calls them.

`tool.py` says what a tool is, `toolbox.py` holds them with their handlers and connections, `runner.py`
takes an id and arguments through one pipeline: resolve, select, validate, dispatch, normalise, validate.
Refused here: discovery, ranking, and anything about flows. To add a kind of backend, write a function
that returns its Route in `route.py` and a line in `Runner._route`.
"""
