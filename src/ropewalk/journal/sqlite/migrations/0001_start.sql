-- JSON is kept as UTF-8 bytes; a value that begins with a zero byte is a blob's hash.

CREATE TABLE definition (
    kind        TEXT NOT NULL,
    id          TEXT NOT NULL,
    name        TEXT NOT NULL,
    document    BLOB,
    fingerprint TEXT NOT NULL,
    created     REAL NOT NULL,
    run_count   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, id)
) WITHOUT ROWID;

CREATE TABLE run (
    seq            INTEGER PRIMARY KEY AUTOINCREMENT,
    id             TEXT NOT NULL UNIQUE,
    kind           TEXT NOT NULL,
    definition_id  TEXT,
    name           TEXT NOT NULL,
    status         TEXT NOT NULL,
    input          BLOB,
    context        BLOB,
    document       BLOB,
    fingerprint    TEXT NOT NULL,
    started_at     REAL NOT NULL,
    ended_at       REAL,
    result         BLOB,
    error          BLOB,
    result_count   INTEGER NOT NULL DEFAULT 0,
    error_count    INTEGER NOT NULL DEFAULT 0,
    stop_requested INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX run_running ON run (seq) WHERE status = 'running';
CREATE INDEX run_definition ON run (definition_id, seq);

-- What changes while a run is alive, apart from the wide row above.
CREATE TABLE lease (
    run   INTEGER PRIMARY KEY,
    owner TEXT,
    epoch INTEGER NOT NULL,
    beat  REAL NOT NULL,
    node  TEXT NOT NULL DEFAULT '',
    spent REAL NOT NULL DEFAULT 0
);

CREATE TABLE entry (
    run     INTEGER NOT NULL,
    path    TEXT NOT NULL,
    kind    TEXT NOT NULL,
    node    TEXT NOT NULL,
    data    BLOB,
    digest  TEXT NOT NULL,
    started REAL NOT NULL,
    ended   REAL NOT NULL,
    UNIQUE (run, path, kind)
);

-- Big values once each, by BLAKE2b of their JSON; codec 0 is plain, 1 is zlib.
CREATE TABLE blob (
    hash  BLOB NOT NULL UNIQUE,
    codec INTEGER NOT NULL,
    size  INTEGER NOT NULL,
    data  BLOB NOT NULL
);
CREATE TABLE held (
    blob BLOB NOT NULL,
    run  INTEGER NOT NULL,
    PRIMARY KEY (blob, run)
) WITHOUT ROWID;
CREATE INDEX held_run ON held (run);
