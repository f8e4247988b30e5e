-- How tools did for the requests they were used for: what the selector learns from.

CREATE TABLE tool_use (
    tool TEXT NOT NULL,
    request TEXT NOT NULL,  -- '' for uses without one, and for older ones
    successes INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (tool, request)
) WITHOUT ROWID;
