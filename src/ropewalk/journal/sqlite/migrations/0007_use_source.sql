-- Who asked for each use of a tool: a digest, '' where nobody said, as of all uses before.

CREATE TABLE tool_use_by_source (
    tool TEXT NOT NULL,
    request TEXT NOT NULL,  -- '' for uses without one, and for older ones
    successes INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    at REAL NOT NULL,
    source TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (tool, request, source)
) WITHOUT ROWID;
INSERT INTO tool_use_by_source (tool, request, successes, failures, at)
    SELECT tool, request, successes, failures, at FROM tool_use;
DROP TABLE tool_use;
ALTER TABLE tool_use_by_source RENAME TO tool_use;
