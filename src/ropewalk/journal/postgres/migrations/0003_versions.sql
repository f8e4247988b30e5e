-- Which run a run was forked from; every version of a stored definition; when what was last done for the store.

ALTER TABLE run ADD COLUMN forked_from TEXT;

CREATE TABLE version (
    kind        TEXT COLLATE "C" NOT NULL,
    id          TEXT COLLATE "C" NOT NULL,
    fingerprint TEXT COLLATE "C" NOT NULL,
    number      BIGINT NOT NULL,
    name        TEXT NOT NULL,
    document    BYTEA,
    created     DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (kind, id, fingerprint)
);
INSERT INTO version SELECT kind, id, fingerprint, 1, name, document, created FROM definition;

CREATE TABLE upkeep (
    name TEXT COLLATE "C" PRIMARY KEY,
    at   DOUBLE PRECISION NOT NULL
);
