-- What is sent to a run. A wait that takes it leaves its path, and the mark of the call that took it.

CREATE TABLE signal (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    run     INTEGER NOT NULL,
    id      TEXT NOT NULL,
    name    TEXT NOT NULL,
    payload BLOB,
    sent    REAL NOT NULL,
    taken   TEXT,
    mark    REAL,
    UNIQUE (run, id)
);
CREATE INDEX signal_mark ON signal (run, mark, seq);

-- When a waiting run goes on even if nothing comes.
ALTER TABLE run ADD COLUMN due REAL;
CREATE INDEX run_waiting ON run (due) WHERE status = 'waiting';
