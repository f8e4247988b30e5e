"""The HTTP API and the page of an app, `ropewalk serve`.

A door: a request becomes a call on App, the answer is rendered, and errors become statuses by the one table
in `answers.py`. Refused: requests without the token, from other hosts and origins, code and paths of files.
To add a route, add it to the router of its noun (`runs.py`, `definitions.py`, `tools.py`).
"""
