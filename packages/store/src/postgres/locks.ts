// Locks on the service's own tables. They are never advisory, because every session that can run
// SQL can take an advisory lock. Their mode needs the right to change the table, which no
// application has, cannot be taken on a replica, and lets every session read.
import { type ClientBase } from "pg";
import { type Clock } from "@highwater/runtime";
import { type Channel } from "./channel.ts";

const LOCK_NOT_AVAILABLE = "55P03";

/** $1 tables. Those that hold or have passed more than a reader's lock. */
const HOLDERS = `SELECT l.relation::regclass::text AS name, l.mode, a.pid, a.usename AS role, a.application_name AS program, a.state,
  round(extract(epoch FROM clock_timestamp() - a.xact_start))::text AS seconds
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.granted AND l.relation = ANY ($1::regclass[]) AND l.mode <> 'AccessShareLock' AND l.pid <> pg_backend_pid()
  AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
ORDER BY a.xact_start, a.pid LIMIT 5`;

interface HolderRow {
  name: string;
  mode: string;
  pid: number;
  role: string;
  program: string;
  state: string;
  seconds: string;
}

/** Until the transaction ends. Errors: as `namingHolders`. */
export async function lockTable(client: ClientBase, table: string): Promise<void> {
  await namingHolders(client, [table], () => client.query(`LOCK TABLE ${table} IN EXCLUSIVE MODE`));
}

/**
 * Runs work that may wait for locks on the tables; when it waited in vain, its error says for whom.
 */
export async function namingHolders<T>(
  client: ClientBase,
  tables: readonly string[],
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if ((cause as { code?: unknown }).code !== LOCK_NOT_AVAILABLE) throw cause;
    // Inside a transaction that has failed nothing else can be asked.
    await client.query("ROLLBACK");
    const { rows } = await client.query<HolderRow>(HOLDERS, [tables]);
    throw Object.assign(new Error(describe(tables, rows), { cause }), { code: LOCK_NOT_AVAILABLE });
  }
}

/**
 * Ends those that hold what `waiting` waits for: runs `sql`, with its backend and `values`, every
 * `everyMs` until it is stopped.
 */
export function rescueBy(
  waiting: ClientBase & { readonly processID?: number | null },
  sql: string,
  values: readonly unknown[],
  { rescue, clock, everyMs }: { readonly rescue: Channel; readonly clock: Clock; readonly everyMs: number },
): () => void {
  let cancel = (): void => undefined;
  let stopped = false;
  const arm = (): void => {
    if (stopped) return;
    cancel = clock.after(everyMs, () => {
      void rescue
        .run((client) => client.query(sql, [waiting.processID ?? 0, ...values]))
        .catch(() => undefined)
        .then(arm);
    });
  };
  arm();
  return () => {
    stopped = true;
    cancel();
  };
}

function describe(tables: readonly string[], holders: readonly HolderRow[]): string {
  const waited = `waited in vain for a lock on ${tables.join(" or ")}`;
  if (holders.length === 0) return `${waited}, which is free by now: try again`;
  const each = holders.map(
    ({ name, mode, pid, role, program, state, seconds }) =>
      `process ${String(pid)} (role ${role}, ${program === "" ? "no program's name" : program}, ${state} for ${seconds} s) holds ${mode} on ${name}`,
  );
  const end = `SELECT pg_terminate_backend(${String(holders[0]?.pid)})`;
  return `${waited}: ${each.join("; ")}. If it should not, end it: ${end}`;
}
