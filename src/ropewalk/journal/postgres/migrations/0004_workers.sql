-- Who takes work, alive as long as its beat is recent by the server's clock: no other clock judges.
CREATE TABLE worker (
    id    TEXT COLLATE "C" PRIMARY KEY,
    owner TEXT NOT NULL,
    began TIMESTAMPTZ NOT NULL,
    beat  TIMESTAMPTZ NOT NULL,
    about TEXT NOT NULL
);

-- Runs whose worker died on them: how often since they recorded something last.
CREATE TABLE mishap (
    run     BIGINT PRIMARY KEY,
    deaths  INTEGER NOT NULL,
    entries BIGINT NOT NULL
);

-- When the next call under a limit may begin, in seconds of the server's clock.
CREATE TABLE pace (
    name TEXT COLLATE "C" PRIMARY KEY,
    due  DOUBLE PRECISION NOT NULL
) WITH (fillfactor = 50);
