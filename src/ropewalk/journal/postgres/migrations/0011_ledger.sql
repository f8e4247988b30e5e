-- What runs have used of their budgets, and what calls in progress have reserved.

CREATE TABLE account (
    id       TEXT COLLATE "C" PRIMARY KEY,
    calls    DOUBLE PRECISION NOT NULL DEFAULT 0,
    seconds  DOUBLE PRECISION NOT NULL DEFAULT 0,
    tokens   DOUBLE PRECISION NOT NULL DEFAULT 0,
    cost     DOUBLE PRECISION NOT NULL DEFAULT 0,
    unpriced DOUBLE PRECISION NOT NULL DEFAULT 0
);

CREATE TABLE reservation (
    key      TEXT COLLATE "C" PRIMARY KEY,
    accounts TEXT NOT NULL  -- a JSON list of their ids
);
