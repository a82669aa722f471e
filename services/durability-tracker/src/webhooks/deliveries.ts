// Deliveries in the store: the claim to send one, the result of an attempt, and redelivery.
import type { AttemptOutcome, DeliveryAttempt, DeliveryStatus, WebhookDelivery } from "@highwater/protocol";
import { type Database, type Executor } from "./database.ts";
import { type Attempt } from "./exchange.ts";
import { type Jobs } from "./jobs.ts";
import { type Secrets } from "./signature.ts";

const millis = (column: string): string => `floor(extract(epoch FROM ${column}) * 1000)::float8`;

/**
 * $1 delivery, $2 job, $3 milliseconds. Only the delivery's own job may send, only while no other
 * job sends, and only while the endpoint is enabled. A test is sent even if it is disabled. A
 * deleted endpoint gets nothing.
 */
const CLAIM = `UPDATE highwater.webhook_delivery d
SET sending_until = clock_timestamp() + $3::float8 * interval '1 millisecond'
FROM highwater.webhook_endpoint e
WHERE d.id = $1 AND d.job = $2 AND d.status = 'pending' AND e.id = d.endpoint
  AND (d.sending_until IS NULL OR d.sending_until < clock_timestamp())
  AND e.deleted_at IS NULL AND (e.disabled_at IS NULL OR d.type = 'webhook.test')
RETURNING d.type, d.body, d.failures, e.url, e.secret, e.previous_secret, ${millis("e.previous_until")} AS previous_until_ms`;

/** $1 delivery. */
const STANDING = `SELECT d.job, d.status, d.type, coalesce(d.sending_until > clock_timestamp(), false) AS is_being_sent,
  e.disabled_at IS NOT NULL AS is_disabled, e.deleted_at IS NOT NULL AS is_deleted
FROM highwater.webhook_delivery d JOIN highwater.webhook_endpoint e ON e.id = d.endpoint WHERE d.id = $1 FOR UPDATE OF d`;

const HOLD = `UPDATE highwater.webhook_delivery
SET status = 'held', job = NULL, next_attempt_at = NULL, sending_until = NULL WHERE id = $1`;

/** $1 delivery, $2 job, $3 milliseconds. */
const POSTPONE = `UPDATE highwater.webhook_delivery
SET job = $2, next_attempt_at = clock_timestamp() + $3::float8 * interval '1 millisecond' WHERE id = $1`;

/**
 * $1 endpoint. Locks the endpoint before the delivery, as a deletion does. Otherwise a second
 * change of the delivery in one transaction would lock its endpoint later.
 */
const KEEP = `SELECT FROM highwater.webhook_endpoint WHERE id = $1 FOR KEY SHARE`;

/** $1 endpoint. */
const SUCCEEDED = `UPDATE highwater.webhook_endpoint SET failing_since = NULL WHERE id = $1 AND failing_since IS NOT NULL`;

/** At the first failure, failing_since is NULL, so the time cannot be over. */
const IS_OVER = `(disabled_at IS NULL AND ($2::boolean
  OR coalesce(statement_timestamp() - failing_since >= $3::float8 * interval '1 millisecond', false)))`;

/**
 * $1 endpoint, $2 whether it is gone, $3 milliseconds of failures after which it is disabled. Uses
 * only the server's clock. The row is not joined with itself, because two such statements at once
 * would deadlock.
 */
const FAILED = `UPDATE highwater.webhook_endpoint SET
  failing_since = coalesce(failing_since, statement_timestamp()),
  disabled_at = CASE WHEN ${IS_OVER} THEN statement_timestamp() ELSE disabled_at END,
  disabled_why = CASE WHEN ${IS_OVER} THEN CASE WHEN $2::boolean THEN 'gone' ELSE 'failing' END ELSE disabled_why END,
  must_tell = must_tell OR ${IS_OVER}
WHERE id = $1 AND deleted_at IS NULL RETURNING disabled_at IS NOT NULL AS is_disabled`;

/** $1 delivery, $2 whether the attempt ended in time, in which case no other job is sending. */
const COUNT_ATTEMPT = `UPDATE highwater.webhook_delivery
SET attempts = attempts + 1, sending_until = CASE WHEN $2::boolean THEN NULL ELSE sending_until END
WHERE id = $1 RETURNING attempts`;

/** $1 delivery, $2 job, $3 status, $4 the next job or NULL, $5 milliseconds until then or NULL. */
const SETTLE = `UPDATE highwater.webhook_delivery SET status = $3, job = $4,
  failures = failures + CASE WHEN $3 = 'delivered' THEN 0 ELSE 1 END,
  next_attempt_at = clock_timestamp() + $5::float8 * interval '1 millisecond',
  settled_at = CASE WHEN $3 IN ('delivered', 'failed') THEN clock_timestamp() END
WHERE id = $1 AND job = $2
RETURNING (extract(epoch FROM clock_timestamp() - created_at) * 1000)::float8 AS age_ms`;

const INSERT_ATTEMPT = `INSERT INTO highwater.webhook_attempt (delivery, n, duration_ms, outcome, status, answer)
VALUES ($1, $2, $3, $4, $5, $6)`;

const DELIVERY_COLUMNS = `d.id, d.place::text, d.type, d.status, d.attempts, ${millis("d.created_at")} AS created_ms,
  ${millis("d.next_attempt_at")} AS next_attempt_ms, ${millis("d.settled_at")} AS settled_ms`;

/** $1 endpoint, $2 status or NULL, $3 place from which the list goes back, or NULL, $4 limit. */
const LIST = `SELECT ${DELIVERY_COLUMNS} FROM highwater.webhook_delivery d
WHERE d.endpoint = $1 AND ($2::text IS NULL OR d.status = $2) AND ($3::bigint IS NULL OR d.place < $3)
ORDER BY d.place DESC LIMIT $4`;

const READ = `SELECT ${DELIVERY_COLUMNS}, d.body FROM highwater.webhook_delivery d WHERE d.endpoint = $1 AND d.id = $2`;

const ATTEMPTS = `SELECT a.n, ${millis("a.at")} AS at_ms, a.duration_ms, a.outcome, a.status, a.answer
FROM highwater.webhook_attempt a WHERE a.delivery = $1 ORDER BY a.n DESC LIMIT 100`;

const BEGIN_ANEW = `status = 'pending', job = gen_random_uuid(), failures = 0, settled_at = NULL,
  next_attempt_at = clock_timestamp()`;

/** $1 endpoint, $2 delivery. A job that still waits is outdated from now on. */
const REDELIVER = `UPDATE highwater.webhook_delivery d SET ${BEGIN_ANEW} WHERE d.endpoint = $1 AND d.id = $2
RETURNING d.job, ${DELIVERY_COLUMNS}`;

/** $1 endpoint, $2 milliseconds since 1970, $3 limit. */
const RECOVER = `UPDATE highwater.webhook_delivery d SET ${BEGIN_ANEW} WHERE d.id IN (
  SELECT o.id FROM highwater.webhook_delivery o WHERE o.endpoint = $1 AND o.status IN ('failed', 'held')
    AND o.type <> 'webhook.test' AND o.created_at >= to_timestamp($2::float8 / 1000)
  ORDER BY o.place LIMIT $3 FOR UPDATE SKIP LOCKED)
RETURNING d.id, d.job, d.place::text`;

/** The clocks of two servers may differ by this much. */
const AHEAD = "clock_timestamp() + interval '5 seconds'";

/**
 * $1 milliseconds of a claim, $2 limit. Finds deliveries with times from a clock that was ahead: it
 * was set back, or a server with another clock has taken over. The last attempt of such a delivery
 * (or its creation, without attempts) lies in the future, so the next attempt would wait as long as
 * the clock was ahead; or its claim is longer than $1. Its sender may still be sending, so the
 * claim is cut to $1 but not removed.
 */
const HASTEN = `UPDATE highwater.webhook_delivery SET job = gen_random_uuid(), next_attempt_at = clock_timestamp(),
  sending_until = CASE WHEN sending_until > clock_timestamp() THEN clock_timestamp() + $1::float8 * interval '1 millisecond' END
WHERE id IN (
  SELECT d.id FROM highwater.webhook_delivery d WHERE d.status = 'pending' AND (
    d.sending_until > ${AHEAD} + $1::float8 * interval '1 millisecond'
    OR d.next_attempt_at > ${AHEAD} AND coalesce((SELECT a.at FROM highwater.webhook_attempt a WHERE a.delivery = d.id
      ORDER BY a.n DESC LIMIT 1), d.created_at) > ${AHEAD})
  LIMIT $2 FOR UPDATE SKIP LOCKED)
RETURNING id, endpoint, job`;

/** $1 endpoint, $2 limit. */
const SOME_OF = "SELECT id, job FROM highwater.webhook_delivery WHERE endpoint = $1 LIMIT $2";
const REMOVE = "DELETE FROM highwater.webhook_delivery WHERE id = ANY ($1::text[])";

/** $1 milliseconds since 1970, $2 limit. Removes older deliveries, except pending ones. */
const EXPIRE = `WITH dropped AS (
  DELETE FROM highwater.webhook_delivery WHERE id IN (
    SELECT o.id FROM highwater.webhook_delivery o WHERE o.status <> 'pending'
      AND o.created_at < to_timestamp($1::float8 / 1000)
    ORDER BY o.created_at LIMIT $2 FOR UPDATE SKIP LOCKED)
  RETURNING 1
)
SELECT count(*)::int AS dropped FROM dropped`;

export interface Claimed {
  readonly type: string;
  readonly body: string;
  readonly failures: number;
  readonly url: string;
  readonly secrets: Secrets;
}

/** Null: this job may never send the delivery, or not now. */
export async function claim(
  database: Database,
  { delivery, job, forMs }: { readonly delivery: string; readonly job: string; readonly forMs: number },
): Promise<Claimed | null> {
  const [row] = await database.query<ClaimRow>(CLAIM, [delivery, job, forMs]);
  if (row === undefined) return null;
  const { type, body, failures, url, secret, previous_secret, previous_until_ms } = row;
  const previous =
    previous_secret === null || previous_until_ms === null
      ? null
      : { secret: previous_secret, untilMs: previous_until_ms };
  return { type, body, failures, url, secrets: { current: secret, previous } };
}

/** What to do with a job that may not send its delivery. */
export async function decideUnclaimed(
  client: Executor,
  { delivery, job }: { readonly delivery: string; readonly job: string },
): Promise<"forget" | "hold" | "wait"> {
  const { rows } = await client.query<StandingRow>(STANDING, [delivery]);
  const [row] = rows;
  if (row === undefined || row.is_deleted || row.job !== job || row.status !== "pending") return "forget";
  return row.is_disabled && row.type !== "webhook.test" ? "hold" : "wait";
}

export async function hold(client: Executor, delivery: string): Promise<void> {
  await client.query(HOLD, [delivery]);
}

export async function postpone(
  client: Executor,
  { delivery, job, delayMs }: { readonly delivery: string; readonly job: string; readonly delayMs: number },
): Promise<void> {
  await client.query(POSTPONE, [delivery, job, delayMs]);
}

/** True when the endpoint is disabled afterwards; false when it is enabled or no longer exists. */
export async function noteOutcome(
  client: Executor,
  endpoint: string,
  { outcome }: Attempt,
  disableAfterMs: number,
): Promise<boolean> {
  if (outcome === "delivered") {
    await client.query(KEEP, [endpoint]);
    await client.query(SUCCEEDED, [endpoint]);
    return false;
  }
  const { rows } = await client.query<{ is_disabled: boolean }>(FAILED, [
    endpoint,
    outcome === "gone",
    disableAfterMs,
  ]);
  return rows[0]?.is_disabled === true;
}

/** False when the delivery no longer exists. */
export async function recordAttempt(
  client: Executor,
  { delivery, isInTime }: { readonly delivery: string; readonly isInTime: boolean },
  attempt: Attempt,
): Promise<boolean> {
  const { rows } = await client.query<{ attempts: number }>(COUNT_ATTEMPT, [delivery, isInTime]);
  const [row] = rows;
  if (row === undefined) return false;
  const { durationMs, outcome, status, answer } = attempt;
  await client.query(INSERT_ATTEMPT, [delivery, row.attempts, durationMs, outcome, status, answer]);
  return true;
}

export interface Settlement {
  readonly delivery: string;
  readonly job: string;
  readonly status: DeliveryStatus;
  readonly next: { readonly job: string; readonly delayMs: number } | null;
}

/** The age of the delivery. Null: another job has it now, and nothing was changed. */
export async function settle(
  client: Executor,
  { delivery, job, status, next }: Settlement,
): Promise<number | null> {
  const { rows } = await client.query<{ age_ms: number }>(SETTLE, [
    delivery,
    job,
    status,
    next?.job ?? null,
    next?.delayMs ?? null,
  ]);
  return rows[0]?.age_ms ?? null;
}

export interface DeliveryQuery {
  readonly endpoint: string;
  readonly status: DeliveryStatus | null;
  /** The place of the last delivery on the previous page. */
  readonly before: string | null;
  readonly limit: number;
}

export async function listDeliveries(
  database: Database,
  { endpoint, status, before, limit }: DeliveryQuery,
): Promise<{ deliveries: WebhookDelivery[]; next: string | null }> {
  const rows = await database.query<DeliveryRow>(LIST, [endpoint, status, before, limit + 1]);
  const page = rows.slice(0, limit);
  return {
    deliveries: page.map(deliveryOf),
    next: rows.length > limit ? (page.at(-1)?.place ?? null) : null,
  };
}

export async function readDelivery(
  database: Database,
  endpoint: string,
  delivery: string,
): Promise<(WebhookDelivery & { body: string; history: DeliveryAttempt[] }) | null> {
  const [row] = await database.query<DeliveryRow & { body: string }>(READ, [endpoint, delivery]);
  if (row === undefined) return null;
  const attempts = await database.query<AttemptRow>(ATTEMPTS, [delivery]);
  return { ...deliveryOf(row), body: row.body, history: attempts.reverse().map(attemptOf) };
}

export async function redeliver(
  client: Executor,
  endpoint: string,
  delivery: string,
): Promise<{ delivery: WebhookDelivery; job: string } | null> {
  const { rows } = await client.query<DeliveryRow & { job: string }>(REDELIVER, [endpoint, delivery]);
  const [row] = rows;
  return row === undefined ? null : { delivery: deliveryOf(row), job: row.job };
}

/** Oldest first. */
export async function recoverSome(
  client: Executor,
  {
    endpoint,
    sinceMs,
    limit,
  }: { readonly endpoint: string; readonly sinceMs: number; readonly limit: number },
): Promise<{ delivery: string; job: string }[]> {
  const { rows } = await client.query<{ id: string; job: string; place: string }>(RECOVER, [
    endpoint,
    sinceMs,
    limit,
  ]);
  return rows.sort((a, b) => Number(a.place) - Number(b.place)).map(({ id, job }) => ({ delivery: id, job }));
}

/**
 * Makes up to `limit` deliveries due that a wrong clock has delayed. The caller enqueues the new
 * job of each.
 */
export async function hastenSome(
  client: Executor,
  { claimMs, limit }: { readonly claimMs: number; readonly limit: number },
): Promise<{ delivery: string; endpoint: string; job: string }[]> {
  const { rows } = await client.query<{ id: string; endpoint: string; job: string }>(HASTEN, [
    claimMs,
    limit,
  ]);
  return rows.map(({ id, endpoint, job }) => ({ delivery: id, endpoint, job }));
}

/**
 * Removes up to `limit` deliveries of a deleted endpoint; returns how many. Removes their jobs
 * first, because workers also lock the job before the delivery.
 */
export async function removeSome(
  client: Executor,
  jobs: Jobs,
  { endpoint, limit }: { readonly endpoint: string; readonly limit: number },
): Promise<number> {
  const { rows } = await client.query<{ id: string; job: string | null }>(SOME_OF, [endpoint, limit]);
  if (rows.length === 0) return 0;
  await jobs.remove(
    client,
    rows.flatMap(({ job }) => (job === null ? [] : [job])),
  );
  await client.query(REMOVE, [rows.map(({ id }) => id)]);
  return rows.length;
}

/** Removes up to `limit` deliveries; returns how many. */
export async function expireDeliveries(database: Database, beforeMs: number, limit: number): Promise<number> {
  const [row] = await database.query<{ dropped: number }>(EXPIRE, [beforeMs, limit]);
  return row?.dropped ?? 0;
}

interface ClaimRow {
  type: string;
  body: string;
  failures: number;
  url: string;
  secret: string;
  previous_secret: string | null;
  previous_until_ms: number | null;
}

interface StandingRow {
  job: string | null;
  status: DeliveryStatus;
  type: string;
  is_being_sent: boolean;
  is_disabled: boolean;
  is_deleted: boolean;
}

interface DeliveryRow {
  id: string;
  place: string;
  type: string;
  status: DeliveryStatus;
  attempts: number;
  created_ms: number;
  next_attempt_ms: number | null;
  settled_ms: number | null;
}

interface AttemptRow {
  n: number;
  at_ms: number;
  duration_ms: number;
  outcome: AttemptOutcome;
  status: number | null;
  answer: string | null;
}

export function instant(ms: number): string {
  return new Date(ms).toISOString();
}

function instantOrNull(ms: number | null): string | null {
  return ms === null ? null : instant(ms);
}

function deliveryOf(row: DeliveryRow): WebhookDelivery {
  return {
    id: row.id,
    type: row.type,
    status: row.status,
    attempts: row.attempts,
    createdAt: instant(row.created_ms),
    nextAttemptAt: instantOrNull(row.next_attempt_ms),
    settledAt: instantOrNull(row.settled_ms),
  };
}

function attemptOf(row: AttemptRow): DeliveryAttempt {
  const { n, at_ms, duration_ms, outcome, status, answer } = row;
  return { n, at: instant(at_ms), durationMs: duration_ms, outcome, status, answer };
}
