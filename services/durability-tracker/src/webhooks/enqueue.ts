// Turns recorded events into deliveries and their jobs, in the transaction that records the events.
import { type FreshEvent } from "@highwater/store";
import { type Executor } from "./database.ts";
import { type Jobs, newJobId } from "./jobs.ts";
import { type Interest, type Message, messagesFor, webhookTypeOf } from "./message.ts";

/**
 * $1 types, $2 owners, $3 whether some events concern every owner. Locks the endpoints' rows until
 * the commit, because the messages refer to them.
 */
const INTERESTED = `SELECT e.id, e.owner::text, e.events, e.filter, e.disabled_at IS NOT NULL AS is_disabled
FROM highwater.webhook_endpoint e WHERE e.deleted_at IS NULL AND e.events && $1::text[] AND (e.owner = ANY ($2::numeric[]) OR $3::boolean)
ORDER BY e.id FOR KEY SHARE`;

/** $1 ids, $2 endpoints, $3 types, $4 bodies, $5 jobs; no job: held. A known id has no effect. */
const INSERT = `INSERT INTO highwater.webhook_delivery (id, endpoint, type, body, status, job, next_attempt_at)
SELECT m.id, m.endpoint, m.type, m.body, CASE WHEN m.job IS NULL THEN 'held' ELSE 'pending' END, m.job,
  CASE WHEN m.job IS NOT NULL THEN clock_timestamp() END
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::uuid[]) WITH ORDINALITY
  AS m (id, endpoint, type, body, job, place)
ORDER BY m.place ON CONFLICT (id) DO NOTHING RETURNING id`;

export interface Outgoing extends Message {
  readonly endpoint: string;
  /** Null: the delivery is held until someone asks for it. */
  readonly job: string | null;
}

interface InterestRow {
  id: string;
  owner: string;
  events: string[];
  filter: string;
  is_disabled: boolean;
}

/**
 * Returns how many messages the events produced. `jobs`: called only if there are jobs to enqueue.
 */
export async function enqueueEvents(
  client: Executor,
  events: readonly FreshEvent[],
  jobs: () => Jobs,
): Promise<number> {
  const types = [...new Set(events.map(webhookTypeOf))];
  const owners = [...new Set(events.flatMap(({ owner }) => (owner === null ? [] : [String(owner)])))];
  const { rows } = await client.query<InterestRow>({
    name: "webhooks-interested",
    text: INTERESTED,
    values: [types, owners, events.some(({ owner }) => owner === null)],
  });
  const outgoing = rows.flatMap((row) =>
    messagesFor(interestOf(row), events).map((message): Outgoing => {
      return { ...message, endpoint: row.id, job: row.is_disabled ? null : newJobId() };
    }),
  );
  return outgoing.length === 0 ? 0 : insertDeliveries(client, outgoing, jobs);
}

export async function insertDeliveries(
  client: Executor,
  outgoing: readonly Outgoing[],
  jobs: () => Jobs,
): Promise<number> {
  const { rows } = await client.query<{ id: string }>({
    name: "webhooks-insert",
    text: INSERT,
    values: [
      outgoing.map(({ id }) => id),
      outgoing.map(({ endpoint }) => endpoint),
      outgoing.map(({ type }) => type),
      outgoing.map(({ body }) => body),
      outgoing.map(({ job }) => job),
    ],
  });
  const inserted = new Set(rows.map(({ id }) => id));
  const due = outgoing.flatMap(({ id, endpoint, job }) =>
    job !== null && inserted.has(id) ? [{ id: job, delivery: id, endpoint, delayMs: 0 }] : [],
  );
  if (due.length > 0) await jobs().enqueue(client, due);
  return inserted.size;
}

function interestOf(row: InterestRow): Interest {
  return {
    id: row.id,
    owner: BigInt(row.owner),
    events: row.events,
    filter: JSON.parse(row.filter) as Readonly<Record<string, string>>,
  };
}
