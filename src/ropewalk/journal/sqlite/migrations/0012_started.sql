-- Counts of the runs of a time. Nothing else is in the index, so a run writes to it once.

CREATE INDEX run_started ON run (started_at) WHERE parent IS NULL;
