"""Backends: everything that can run a tool, such as Python functions, HTTP providers and command-line programs.

`kinds.py` has the registry of the kinds of backend. `route.py` defines a Route, the way from arguments to a result.
"""
