-- Which run a run was forked from; every version of a stored definition; when what was last done for the store.

ALTER TABLE run ADD COLUMN forked_from TEXT;

CREATE TABLE version (
    kind        TEXT NOT NULL,
    id          TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    number      INTEGER NOT NULL,
    name        TEXT NOT NULL,
    document    BLOB,
    created     REAL NOT NULL,
    PRIMARY KEY (kind, id, fingerprint)
) WITHOUT ROWID;
INSERT INTO version SELECT kind, id, fingerprint, 1, name, document, created FROM definition;

CREATE TABLE upkeep (
    name TEXT PRIMARY KEY,
    at   REAL NOT NULL
) WITHOUT ROWID;
