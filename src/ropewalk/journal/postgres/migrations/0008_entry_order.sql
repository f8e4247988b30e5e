-- The entries of a long run are read in order, a page at a time.

CREATE INDEX entry_order ON entry (run, rowid);
