// Endpoints in the store. An owner sees only its own endpoints, without deleted ones.
import type { DisabledWhy, Webhook, WebhookEventType, WebhookSecret } from "@highwater/protocol";
import { type Database, type Executor } from "./database.ts";
import { instant } from "./deliveries.ts";

const millis = (column: string): string => `floor(extract(epoch FROM ${column}) * 1000)::float8`;

const COLUMNS = `id, url, description, events, filter, disabled_why, ${millis("created_at")} AS created_ms,
  ${millis("disabled_at")} AS disabled_ms, ${millis("failing_since")} AS failing_ms`;

/**
 * Creators of endpoints take turns; otherwise two could both create the last endpoint that an owner
 * may have. Deliveries are not blocked.
 */
const TAKE_TURN = "LOCK TABLE highwater.webhook_endpoint IN SHARE ROW EXCLUSIVE MODE";
const COUNT = `SELECT count(*)::int AS count FROM highwater.webhook_endpoint WHERE owner = $1 AND deleted_at IS NULL`;
const INSERT = `INSERT INTO highwater.webhook_endpoint (id, owner, url, description, events, filter, secret)
VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING ${COLUMNS}`;
const LIST = `SELECT ${COLUMNS} FROM highwater.webhook_endpoint WHERE owner = $1 AND deleted_at IS NULL ORDER BY created_at, id`;
/** $1 owner, $2 id. */
const OWN = "owner = $1 AND id = $2 AND deleted_at IS NULL";
const READ = `SELECT ${COLUMNS} FROM highwater.webhook_endpoint WHERE ${OWN}`;

/**
 * $1 owner, $2 id, then the new values or NULL: $3 url, $4 description, $5 events, $6 filter, $7
 * whether it is disabled.
 */
const CHANGE = `UPDATE highwater.webhook_endpoint SET url = coalesce($3, url), description = coalesce($4, description),
  events = coalesce($5::text[], events), filter = coalesce($6, filter),
  disabled_at = CASE WHEN $7::boolean THEN coalesce(disabled_at, clock_timestamp())
    WHEN NOT $7::boolean THEN NULL ELSE disabled_at END,
  disabled_why = CASE WHEN $7::boolean THEN coalesce(disabled_why, 'by_request')
    WHEN NOT $7::boolean THEN NULL ELSE disabled_why END,
  failing_since = CASE WHEN NOT $7::boolean THEN NULL ELSE failing_since END
WHERE ${OWN} RETURNING ${COLUMNS}`;

/** Neither waits for transactions that record events, nor blocks them: the key stays. */
const DELETE = `UPDATE highwater.webhook_endpoint SET deleted_at = clock_timestamp(), must_tell = false WHERE ${OWN}`;

/** Trackers take turns. Does not conflict with new deliveries, which refer to the endpoint. */
const PICK_DELETED = `SELECT id FROM highwater.webhook_endpoint WHERE deleted_at IS NOT NULL
ORDER BY deleted_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED`;
/** Also removes deliveries from recordings that began before the deletion: there are few. */
const DROP = `DELETE FROM highwater.webhook_endpoint WHERE id = $1`;

/** $1 endpoints. Includes deleted endpoints, because they may have jobs. */
const SIBLINGS = `SELECT id, owner::text FROM highwater.webhook_endpoint
WHERE owner IN (SELECT e.owner FROM highwater.webhook_endpoint e WHERE e.id = ANY ($1::text[]))`;

const SECRET_COLUMNS = `secret, CASE WHEN previous_until > clock_timestamp() THEN previous_secret END AS previous_secret,
  ${millis("previous_until")} AS previous_until_ms`;
const READ_SECRET = `SELECT ${SECRET_COLUMNS} FROM highwater.webhook_endpoint WHERE ${OWN}`;

/** $1 owner, $2 id, $3 the new secret, $4 seconds. */
const ROTATE = `UPDATE highwater.webhook_endpoint SET secret = $3,
  previous_secret = CASE WHEN $4::int > 0 THEN secret END,
  previous_until = CASE WHEN $4::int > 0 THEN clock_timestamp() + $4::int * interval '1 second' END
WHERE ${OWN} RETURNING ${SECRET_COLUMNS}`;

/** Owners that subscribe to durable transactions. */
const WANT_DURABLE = `SELECT owner::text, filter FROM highwater.webhook_endpoint
WHERE disabled_at IS NULL AND deleted_at IS NULL AND 'transaction.durable' = ANY (events) ORDER BY id`;

/** Microseconds in the key, because an endpoint may be disabled again soon after it was enabled. */
const UNNOTIFIED = `SELECT id, owner::text, coalesce(disabled_why, 'failing') AS why, ${millis("failing_since")} AS failing_ms,
  (extract(epoch FROM disabled_at) * 1000000)::bigint::text AS moment
FROM highwater.webhook_endpoint WHERE must_tell AND disabled_at IS NOT NULL AND deleted_at IS NULL ORDER BY disabled_at LIMIT 100`;
const NOTIFIED = `UPDATE highwater.webhook_endpoint SET must_tell = false WHERE must_tell AND (disabled_at IS NULL
  OR (id = $1 AND (extract(epoch FROM disabled_at) * 1000000)::bigint = $2::bigint))`;

const DROP_SECRETS = `UPDATE highwater.webhook_endpoint SET previous_secret = NULL, previous_until = NULL
WHERE previous_until < clock_timestamp()`;

const CENSUS = `SELECT
  (SELECT count(*)::int FROM highwater.webhook_endpoint WHERE deleted_at IS NULL) AS endpoints,
  (SELECT count(*)::int FROM highwater.webhook_endpoint WHERE disabled_at IS NOT NULL AND deleted_at IS NULL) AS disabled,
  (SELECT count(*)::int FROM highwater.webhook_delivery WHERE status = 'pending') AS pending,
  (SELECT count(*)::int FROM highwater.webhook_delivery WHERE status = 'failed') AS failed,
  (SELECT count(*)::int FROM highwater.webhook_delivery WHERE status = 'held') AS held,
  (SELECT coalesce(extract(epoch FROM clock_timestamp() - min(created_at)) * 1000, 0)::float8
    FROM highwater.webhook_delivery WHERE status = 'pending') AS "oldestPendingMs"`;

export interface EndpointRow {
  readonly id: string;
  readonly owner: bigint;
  readonly url: string;
  readonly description: string;
  readonly events: readonly string[];
  readonly filter: Readonly<Record<string, string>>;
  readonly secret: string;
}

/** Null: the owner has reached its limit. */
export async function insertEndpoint(
  client: Executor,
  row: EndpointRow,
  most: number,
): Promise<Webhook | null> {
  await client.query(TAKE_TURN);
  const { rows: counted } = await client.query<{ count: number }>(COUNT, [String(row.owner)]);
  if ((counted[0]?.count ?? 0) >= most) return null;
  const { id, owner, url, description, events, filter, secret } = row;
  const { rows } = await client.query<WebhookRow>(INSERT, [
    ...[id, String(owner), url, description],
    ...[events, JSON.stringify(filter), secret],
  ]);
  return rows[0] === undefined ? null : webhookOf(rows[0]);
}

export async function listEndpoints(database: Database, owner: bigint): Promise<Webhook[]> {
  return (await database.query<WebhookRow>(LIST, [String(owner)])).map(webhookOf);
}

export async function readEndpoint(database: Database, owner: bigint, id: string): Promise<Webhook | null> {
  const [row] = await database.query<WebhookRow>(READ, [String(owner), id]);
  return row === undefined ? null : webhookOf(row);
}

export interface EndpointChange {
  readonly url?: string | undefined;
  readonly description?: string | undefined;
  readonly events?: readonly string[] | undefined;
  readonly filter?: Readonly<Record<string, string>> | undefined;
  readonly disabled?: boolean | undefined;
}

export async function changeEndpoint(
  client: Executor,
  owner: bigint,
  id: string,
  change: EndpointChange,
): Promise<Webhook | null> {
  const { url, description, events, filter, disabled } = change;
  const { rows } = await client.query<WebhookRow>(CHANGE, [
    ...[String(owner), id, url ?? null, description ?? null, events ?? null],
    ...[filter === undefined ? null : JSON.stringify(filter), disabled ?? null],
  ]);
  return rows[0] === undefined ? null : webhookOf(rows[0]);
}

/** The endpoint gets nothing from now on. A chore removes the rest of it. */
export async function deleteEndpoint(client: Executor, owner: bigint, id: string): Promise<boolean> {
  return (await client.query(DELETE, [String(owner), id])).rowCount === 1;
}

/** Null: there is none. The caller removes its deliveries and then drops it. */
export async function pickDeleted(client: Executor): Promise<string | null> {
  return (await client.query<{ id: string }>(PICK_DELETED)).rows[0]?.id ?? null;
}

export async function dropDeleted(client: Executor, id: string): Promise<void> {
  await client.query(DROP, [id]);
}

/** The owners of these endpoints, by endpoint, for all endpoints of these owners. */
export async function readSiblings(
  database: Database,
  endpoints: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const rows = await database.query<{ id: string; owner: string }>(SIBLINGS, [endpoints]);
  return new Map(rows.map(({ id, owner }) => [id, owner]));
}

export async function readSecret(
  database: Database,
  owner: bigint,
  id: string,
): Promise<WebhookSecret | null> {
  const [row] = await database.query<SecretRow>(READ_SECRET, [String(owner), id]);
  return row === undefined ? null : secretOf(row);
}

export async function rotateSecret(
  client: Executor,
  { owner, id }: { readonly owner: bigint; readonly id: string },
  { secret, overlapSeconds }: { readonly secret: string; readonly overlapSeconds: number },
): Promise<WebhookSecret | null> {
  const { rows } = await client.query<SecretRow>(ROTATE, [String(owner), id, secret, overlapSeconds]);
  return rows[0] === undefined ? null : secretOf(rows[0]);
}

export interface DurableWish {
  readonly owner: bigint;
  readonly filter: Readonly<Record<string, string>>;
}

export async function readDurableWishes(database: Database): Promise<DurableWish[]> {
  const rows = await database.query<{ owner: string; filter: string }>(WANT_DURABLE);
  return rows.map(({ owner, filter }) => ({
    owner: BigInt(owner),
    filter: JSON.parse(filter) as Readonly<Record<string, string>>,
  }));
}

export interface UnnotifiedEndpoint {
  readonly id: string;
  readonly owner: bigint;
  readonly why: DisabledWhy;
  readonly failingSince: string | null;
  readonly moment: string;
}

/** Endpoints that a tracker has disabled, and whose owners have not been informed yet. */
export async function readUnnotified(database: Database): Promise<UnnotifiedEndpoint[]> {
  const rows = await database.query<UnnotifiedRow>(UNNOTIFIED);
  return rows.map(({ id, owner, why, failing_ms, moment }) => ({
    id,
    owner: BigInt(owner),
    why,
    moment,
    failingSince: failing_ms === null ? null : instant(failing_ms),
  }));
}

export async function markNotified(database: Database, { id, moment }: UnnotifiedEndpoint): Promise<void> {
  await database.query(NOTIFIED, [id, moment]);
}

/** Removes previous secrets that no longer sign. */
export async function dropOldSecrets(database: Database): Promise<void> {
  await database.query(DROP_SECRETS);
}

export interface Census {
  readonly endpoints: number;
  readonly disabled: number;
  readonly pending: number;
  readonly failed: number;
  readonly held: number;
  readonly oldestPendingMs: number;
}

export async function takeCensus(database: Database): Promise<Census> {
  const [row] = await database.query<Census & Record<string, unknown>>(CENSUS);
  if (row === undefined) throw new Error("nothing was counted");
  return row;
}

interface WebhookRow {
  id: string;
  url: string;
  description: string;
  events: WebhookEventType[];
  filter: string;
  disabled_why: DisabledWhy | null;
  created_ms: number;
  disabled_ms: number | null;
  failing_ms: number | null;
}

interface SecretRow {
  secret: string;
  previous_secret: string | null;
  previous_until_ms: number | null;
}

interface UnnotifiedRow {
  id: string;
  owner: string;
  why: DisabledWhy;
  failing_ms: number | null;
  moment: string;
}

function webhookOf(row: WebhookRow): Webhook {
  return {
    id: row.id,
    url: row.url,
    events: row.events,
    filter: JSON.parse(row.filter) as Record<string, string>,
    description: row.description,
    disabled: row.disabled_why !== null,
    disabledWhy: row.disabled_why,
    disabledAt: row.disabled_ms === null ? null : instant(row.disabled_ms),
    failingSince: row.failing_ms === null ? null : instant(row.failing_ms),
    createdAt: instant(row.created_ms),
  };
}

function secretOf({ secret, previous_secret, previous_until_ms }: SecretRow): WebhookSecret {
  if (previous_secret === null || previous_until_ms === null) return { secret };
  return { secret, previous: { secret: previous_secret, until: instant(previous_until_ms) } };
}
