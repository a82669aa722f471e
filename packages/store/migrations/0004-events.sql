-- Trackers' events of single transactions, levels and epochs: the same from every tracker, under
-- the same ids. `data` is json, not jsonb: an application's metadata may hold characters that jsonb
-- cannot, such as U+0000.
CREATE TABLE highwater.event (
  seq   bigint NOT NULL,
  n     bigint NOT NULL CHECK (n > 0),
  -- The subject of the event: recording it a second time changes nothing.
  key   text NOT NULL UNIQUE CHECK (length(key) BETWEEN 1 AND 200),
  type  text NOT NULL CHECK (type <> ''),
  -- NULL: everybody's.
  owner bigint,
  at    timestamptz NOT NULL,
  data  json NOT NULL,
  PRIMARY KEY (seq, n)
);

-- The newest number. A tracker that records holds this row until the commit, so numbers become
-- visible in their order and without gaps: a reader that has read up to one of them never misses a
-- lower one. One row, not one for each epoch: a recording that outlasts its epoch keeps those of
-- the next one waiting. `expired_*`: everything at or below may have been dropped.
CREATE TABLE highwater.event_counter (
  only_row    boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  seq         bigint NOT NULL,
  n           bigint NOT NULL,
  expired_seq bigint NOT NULL DEFAULT 0,
  expired_n   bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 20);

CREATE INDEX event_at ON highwater.event (at);

-- Neither by a grant nor by a database's default privileges.
REVOKE ALL ON highwater.event, highwater.event_counter FROM PUBLIC, highwater_app;
