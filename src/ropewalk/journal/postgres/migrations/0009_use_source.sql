-- Who asked for each use of a tool: a digest, '' where nobody said, as of all uses before.

ALTER TABLE tool_use ADD COLUMN source TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE tool_use DROP CONSTRAINT tool_use_pkey;
ALTER TABLE tool_use ADD PRIMARY KEY (tool, request, source);
