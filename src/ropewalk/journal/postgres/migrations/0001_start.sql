-- JSON is kept as UTF-8 bytes; a value that begins with a zero byte is a blob's hash. Numbers of
-- seconds are those of the client's clock: the store judges leases by whether they change.

CREATE TABLE definition (
    kind        TEXT COLLATE "C" NOT NULL,
    id          TEXT COLLATE "C" NOT NULL,
    name        TEXT NOT NULL,
    document    BYTEA,
    fingerprint TEXT NOT NULL,
    created     DOUBLE PRECISION NOT NULL,
    run_count   BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, id)
);

CREATE TABLE run (
    seq            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id             TEXT COLLATE "C" NOT NULL UNIQUE,
    kind           TEXT NOT NULL,
    definition_id  TEXT,
    name           TEXT NOT NULL,
    status         TEXT NOT NULL,
    input          BYTEA,
    context        BYTEA,
    document       BYTEA,
    fingerprint    TEXT NOT NULL,
    started_at     DOUBLE PRECISION NOT NULL,
    ended_at       DOUBLE PRECISION,
    result         BYTEA,
    error          BYTEA,
    result_count   BIGINT NOT NULL DEFAULT 0,
    error_count    BIGINT NOT NULL DEFAULT 0,
    stop_requested SMALLINT NOT NULL DEFAULT 0,
    parent         TEXT
);
CREATE INDEX run_running ON run (seq) WHERE status = 'running';
CREATE INDEX run_definition ON run (definition_id, seq);
CREATE INDEX run_parent ON run (parent, seq) WHERE parent IS NOT NULL;

-- What changes while a run is alive, apart from the wide row above. Its row is the fence: whoever
-- writes to the run locks it, and whoever takes the run over changes its epoch.
CREATE TABLE lease (
    run   BIGINT PRIMARY KEY,
    owner TEXT,
    epoch INTEGER NOT NULL,
    beat  DOUBLE PRECISION NOT NULL,
    node  TEXT NOT NULL DEFAULT '',
    spent DOUBLE PRECISION NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE entry (
    rowid   BIGINT GENERATED ALWAYS AS IDENTITY,
    run     BIGINT NOT NULL,
    path    TEXT COLLATE "C" NOT NULL,
    kind    TEXT COLLATE "C" NOT NULL,
    node    TEXT NOT NULL,
    data    BYTEA,
    digest  TEXT NOT NULL,
    started DOUBLE PRECISION NOT NULL,
    ended   DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (run, path, kind)
);

-- Big values once each, by BLAKE2b of their JSON; codec 0 is plain, 1 is zlib.
CREATE TABLE blob (
    hash  BYTEA PRIMARY KEY,
    codec SMALLINT NOT NULL,
    size  BIGINT NOT NULL,
    data  BYTEA NOT NULL
);
ALTER TABLE blob ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE held (
    blob BYTEA NOT NULL,
    run  BIGINT NOT NULL,
    PRIMARY KEY (blob, run)
);
CREATE INDEX held_run ON held (run);
