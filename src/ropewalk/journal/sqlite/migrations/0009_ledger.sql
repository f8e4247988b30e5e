-- What runs have used of their budgets, and what calls in progress have reserved.

CREATE TABLE account (
    id       TEXT PRIMARY KEY,
    calls    REAL NOT NULL DEFAULT 0,
    seconds  REAL NOT NULL DEFAULT 0,
    tokens   REAL NOT NULL DEFAULT 0,
    cost     REAL NOT NULL DEFAULT 0,
    unpriced REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE reservation (
    key      TEXT PRIMARY KEY,
    accounts TEXT NOT NULL  -- a JSON list of their ids
) WITHOUT ROWID;
