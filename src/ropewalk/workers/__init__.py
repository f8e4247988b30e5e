"""Many workers on one store in Postgres: DBOS hands out the work, the engine and the journal do it.

A run is one DBOS workflow whose body is the interpreter over the run's own journal; no step of DBOS is inside.
The row of the run says what is to be done, DBOS only who does it: a run whose workflow is lost is given
another one. Ours are the heartbeats (`pulse.py`), the reaper, and what a worker does when it is replaced.

Refused here: stores other than Postgres, and knowing what a project is: a worker is handed what it needs. To add
another engine that hands out work, write what `system.py` and `remote.py` do for DBOS beside them.
"""
