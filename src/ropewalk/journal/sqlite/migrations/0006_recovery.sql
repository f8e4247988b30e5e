-- Runs whose process died: how often since they recorded something last, and the epoch at which a server handed one
-- back, to be resumed by the next one (0: never).

CREATE TABLE mishap (
    run INTEGER PRIMARY KEY,
    deaths INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    handed_back INTEGER NOT NULL DEFAULT 0
);
