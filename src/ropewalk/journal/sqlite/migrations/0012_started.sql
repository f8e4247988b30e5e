-- Counts of runs by time, definition and status are read from this index alone.

CREATE INDEX run_started ON run (started_at, status, kind, definition_id, name) WHERE parent IS NULL;
