-- The queue between the two programs: a SQLite file, which needs no server. Both open it with this.
PRAGMA journal_mode = WAL;

CREATE TABLE IF NOT EXISTS queue (
  id TEXT PRIMARY KEY,                  -- the transaction's
  cents INTEGER NOT NULL,               -- what it is about, so that it can be sent again
  -- null until the commit was answered: until then the row is the producer's
  token TEXT,
  -- the settler that has taken it has until then; milliseconds since 1970
  due_ms INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS queue_due ON queue (due_ms) WHERE token IS NOT NULL;

-- What became of each: written once, in the same transaction that takes it out of the queue.
CREATE TABLE IF NOT EXISTS settlement (
  id TEXT PRIMARY KEY,
  verdict TEXT NOT NULL
);
