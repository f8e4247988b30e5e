-- Which runs count for an account: it is deleted after the last of them, and not before a time.

ALTER TABLE account ADD COLUMN kept_until REAL NOT NULL DEFAULT 0;
CREATE TABLE account_run (
    account TEXT NOT NULL,
    run     INTEGER NOT NULL,
    PRIMARY KEY (account, run)
) WITHOUT ROWID;
CREATE INDEX account_run_run ON account_run (run);
