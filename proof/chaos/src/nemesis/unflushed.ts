// A power failure that destroys written but unflushed log: the kernel's page cache is lost with the
// machine. A plain kill leaves those pages, so this wipes the log above the flush position.
import { open } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Client } from "pg";
import { serverProcesses, signalAll } from "./server-processes.ts";
import { type World } from "./world.ts";

const TRIES = 10;
const ANSWER_LIMIT_MS = 2_000;
const BETWEEN_TRIES_MS = 50;

/**
 * PostgreSQL keeps the flush position in shared memory. One backend keeps running, so its own
 * unflushed log counts, too.
 */
const FLUSHED = `SELECT pg_walfile_name(lsn) AS file, (pg_walfile_name_offset(lsn)).file_offset AS at
FROM (SELECT pg_current_wal_flush_lsn() AS lsn) flushed`;

interface FlushPosition {
  readonly file: string;
  readonly at: number;
}

/**
 * Kills the primary and wipes its log above the flush position. All processes are stopped before
 * the position is read, so that nothing is flushed, and thus acknowledged, in between. Returns the
 * number of wiped bytes.
 */
export async function killUnflushed(world: World): Promise<number> {
  const node = world.primary;
  const client = new Client({ connectionString: await world.cluster.connectionString(node) });
  // The kill ends this connection as well.
  client.on("error", () => undefined);
  await client.connect();
  try {
    const flushed = await stopAndRead(world, node, client);
    await world.cluster.kill(node);
    return await wipe(join(world.node(node).dataDir, "pg_wal", flushed.file), flushed.at);
  } finally {
    await client.end().catch(() => undefined);
  }
}

/**
 * Leaves the server stopped. A process that was stopped while it held a lock which the query needs
 * may run on for a moment.
 */
async function stopAndRead(world: World, node: string, client: Client): Promise<FlushPosition> {
  const { rows } = await client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
  const own = rows[0]?.pid;
  for (let attempt = 1; ; attempt++) {
    // The postmaster first, so that it starts no new process.
    const { postmaster } = await serverProcesses(world, node);
    signalAll([postmaster], "SIGSTOP");
    const { children } = await serverProcesses(world, node);
    const others = children.filter((pid) => pid !== own);
    signalAll(others, "SIGSTOP");
    const answered = client.query<FlushPosition>(FLUSHED).then(({ rows: [position] }) => position);
    const position = await Promise.race([answered, pause(ANSWER_LIMIT_MS).then(() => undefined)]);
    if (position !== undefined) return position;
    signalAll([...others, postmaster], "SIGCONT");
    await answered;
    if (attempt === TRIES)
      throw new Error(`${node} does not report its flushed position while it is stopped`);
    await pause(BETWEEN_TRIES_MS);
  }
}

/**
 * Writes zeros from the offset to the end of the file, which a recovery takes for the end of the
 * log. Returns how many bytes were not zero.
 */
async function wipe(path: string, at: number): Promise<number> {
  const file = await open(path, "r+");
  try {
    const { size } = await file.stat();
    const behind = Buffer.alloc(size - at);
    await file.read(behind, 0, behind.length, at);
    const written = behind.findLastIndex((byte) => byte !== 0) + 1;
    if (written > 0) await file.write(Buffer.alloc(behind.length), 0, behind.length, at);
    return written;
  } finally {
    await file.close();
  }
}
