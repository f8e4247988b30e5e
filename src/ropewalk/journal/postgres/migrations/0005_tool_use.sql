-- How tools did for the requests they were used for: what the selector learns from.

CREATE TABLE tool_use (
    tool TEXT COLLATE "C" NOT NULL,
    request TEXT COLLATE "C" NOT NULL,  -- '' for uses without one, and for older ones
    successes BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (tool, request)
);
