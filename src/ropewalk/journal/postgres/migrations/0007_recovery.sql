-- The epoch at which a server handed the run back, to be resumed by the next one (0: never).
ALTER TABLE mishap ADD COLUMN handed_back INTEGER NOT NULL DEFAULT 0;
