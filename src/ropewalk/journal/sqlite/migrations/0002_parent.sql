-- A run that is part of another: the flow was called there as a tool.

ALTER TABLE run ADD COLUMN parent TEXT;
CREATE INDEX run_parent ON run (parent, seq) WHERE parent IS NOT NULL;
