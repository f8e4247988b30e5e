"""The parts that the stores in SQLite and in Postgres share: rows, logs, owners of runs, and the writer.

`store.py` has definitions, runs and tool usage. `log.py` is the journal of one run, and `writer.py` writes entries of
all runs in batches. `leases.py` says which process owns a run.
"""
