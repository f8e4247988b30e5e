-- Runs that wait for a process, the processes that execute them, and what the clock starts. Times are seconds since the
-- epoch. A row of `queue` stays until its run has ended; the lease of the run says whether a process has it.

CREATE TABLE queue (
    run      INTEGER PRIMARY KEY,
    name     TEXT NOT NULL,
    priority INTEGER NOT NULL,
    project  TEXT
);
CREATE INDEX queue_order ON queue (name, priority, run);
-- When runs of a queue with a limit began, for as long as the limit counts them.
CREATE TABLE queue_start (
    queue TEXT NOT NULL,
    at    REAL NOT NULL
);
CREATE TABLE worker (
    id    TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    began REAL NOT NULL,
    beat  REAL NOT NULL,
    about TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE schedule (
    name     TEXT PRIMARY KEY,
    project  TEXT,
    cron     TEXT NOT NULL,
    timezone TEXT NOT NULL,
    context  TEXT NOT NULL,     -- JSON: what to run
    catch_up TEXT NOT NULL,     -- run_once, skip or run_all
    paused   INTEGER NOT NULL,
    next     REAL NOT NULL,     -- the first due time that nobody has handled
    last     REAL,              -- the last due time for which a run was started
    worker   TEXT,              -- who handles `next`, until `held`
    held     REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE schedule_missed (
    schedule TEXT NOT NULL,
    due      REAL NOT NULL,
    became   TEXT NOT NULL,     -- late, merged or skipped
    run      TEXT,              -- the run that was started for it
    PRIMARY KEY (schedule, due)
) WITHOUT ROWID;
