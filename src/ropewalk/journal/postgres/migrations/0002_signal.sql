-- What is sent to a run. A wait that takes it leaves its path, and the mark of the call that took it.

CREATE TABLE signal (
    seq     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run     BIGINT NOT NULL,
    id      TEXT COLLATE "C" NOT NULL,
    name    TEXT COLLATE "C" NOT NULL,
    payload BYTEA,
    sent    DOUBLE PRECISION NOT NULL,
    taken   TEXT COLLATE "C",
    mark    DOUBLE PRECISION,
    UNIQUE (run, id)
);
CREATE INDEX signal_mark ON signal (run, mark, seq);

-- When a waiting run goes on even if nothing comes.
ALTER TABLE run ADD COLUMN due DOUBLE PRECISION;
CREATE INDEX run_waiting ON run (due) WHERE status = 'waiting';
