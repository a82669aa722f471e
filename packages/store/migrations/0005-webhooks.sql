-- Webhooks: the endpoints, what each wants, and every message with its result. The queue itself is
-- a job library's, in a schema of its own (highwater_jobs), which trackers create; a message and
-- its job are written in the transaction that records the events.

-- `secret` signs, so it must be readable: it is a secret at rest. `previous_secret` signs as well
-- until its time is over.
CREATE TABLE highwater.webhook_endpoint (
  id              text PRIMARY KEY,
  owner           bigint NOT NULL,
  url             text NOT NULL,
  description     text NOT NULL,
  events          text[] NOT NULL,
  -- JSON, as text: a value may have characters that jsonb cannot hold.
  filter          text NOT NULL,
  secret          text NOT NULL,
  previous_secret text,
  previous_until  timestamptz,
  created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- The first failure since the last success, since it was enabled.
  failing_since   timestamptz,
  disabled_at     timestamptz,
  disabled_why    text CHECK (disabled_why IN ('by_request', 'gone', 'failing')),
  -- The owner still has to get the event that it was disabled.
  must_tell       boolean NOT NULL DEFAULT false,
  CHECK ((disabled_at IS NULL) = (disabled_why IS NULL)),
  CHECK ((previous_secret IS NULL) = (previous_until IS NULL))
);
CREATE INDEX webhook_endpoint_owner ON highwater.webhook_endpoint (owner, created_at);

-- One message to one endpoint. The id is made of the endpoint and the content, so it cannot be
-- enqueued twice.
CREATE TABLE highwater.webhook_delivery (
  id              text PRIMARY KEY,
  place           bigint GENERATED ALWAYS AS IDENTITY,
  endpoint        text NOT NULL REFERENCES highwater.webhook_endpoint (id) ON DELETE CASCADE,
  type            text NOT NULL,
  body            text NOT NULL,
  status          text NOT NULL CHECK (status IN ('pending', 'delivered', 'failed', 'held')),
  -- The job that may send it now; any other is an old one.
  job             uuid,
  attempts        integer NOT NULL DEFAULT 0,
  -- Of `attempts`, those that failed since it was last begun.
  failures        integer NOT NULL DEFAULT 0,
  -- Somebody is sending it, or died while sending it, until then.
  sending_until   timestamptz,
  created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  next_attempt_at timestamptz,
  settled_at      timestamptz
);
CREATE INDEX webhook_delivery_place ON highwater.webhook_delivery (endpoint, place);
CREATE INDEX webhook_delivery_unsettled ON highwater.webhook_delivery (endpoint, status, place) WHERE status <> 'delivered';
CREATE INDEX webhook_delivery_created ON highwater.webhook_delivery (created_at) WHERE status <> 'pending';

CREATE TABLE highwater.webhook_attempt (
  delivery    text NOT NULL REFERENCES highwater.webhook_delivery (id) ON DELETE CASCADE,
  n           integer NOT NULL,
  at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  duration_ms integer NOT NULL,
  outcome     text NOT NULL,
  status      integer,
  answer      text,
  PRIMARY KEY (delivery, n)
);

-- Neither by a grant nor by a database's default privileges.
REVOKE ALL ON highwater.webhook_endpoint, highwater.webhook_delivery, highwater.webhook_attempt FROM PUBLIC, highwater_app;
