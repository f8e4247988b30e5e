"""Services for recorded runs: list, show, retry, fork, compare, answer, upgrade and delete them.

`queries.py` lists and shows runs and holds the public service, `app.runs`. `rerun.py` retries and forks them.
`upgrade.py` moves a run to a changed definition, and `compare.py` finds what differs. `rerun_plan.py` decides which
steps of a run are repeated.
"""
