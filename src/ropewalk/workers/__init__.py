"""Many workers on one Postgres store: DBOS hands out the runs, the engine and the journal execute them.

A run is one DBOS workflow that executes the run from its own journal; there are no DBOS steps inside. The row of the
run says what to do, and DBOS only says which worker does it. A run whose workflow is lost gets another one. The
heartbeats (`heartbeat.py`), the reaper and the handover between workers are Ropewalk's own.

Only stores in Postgres work, and a worker gets everything about its project from its caller. To add another engine that
hands out runs, write what `dbos_adapter.py` and `queues.py` do for DBOS.
"""
