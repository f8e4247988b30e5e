-- Which run undoes a run ('': nothing was to undo), and whether that happens without a request.

ALTER TABLE run ADD COLUMN undo TEXT COLLATE "C";
ALTER TABLE run ADD COLUMN undo_policy TEXT COLLATE "C";
CREATE INDEX run_undo_due ON run (seq)
    WHERE undo_policy IS NOT NULL AND undo IS NULL AND status IN ('failed', 'stopped', 'timeout');
