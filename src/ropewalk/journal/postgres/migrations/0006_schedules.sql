-- What the clock starts, and the due times at which no worker could start it. Times are seconds since the epoch.

CREATE TABLE schedule (
    name     TEXT COLLATE "C" PRIMARY KEY,
    project  TEXT,
    cron     TEXT NOT NULL,
    timezone TEXT NOT NULL,
    context  TEXT NOT NULL,              -- JSON: what to run
    catch_up TEXT NOT NULL,              -- run_once, skip or run_all
    paused   BOOLEAN NOT NULL,
    next     DOUBLE PRECISION NOT NULL,  -- the first due time that nobody has handled
    last     DOUBLE PRECISION,           -- the last due time for which a run was started
    worker   TEXT,                       -- who handles `next`, until `held`
    held     DOUBLE PRECISION NOT NULL
);

CREATE TABLE schedule_missed (
    schedule TEXT COLLATE "C" NOT NULL REFERENCES schedule (name) ON DELETE CASCADE,
    due      DOUBLE PRECISION NOT NULL,
    became   TEXT NOT NULL,              -- late, merged or skipped
    run      TEXT,                       -- the run that was started for it
    PRIMARY KEY (schedule, due)
);
