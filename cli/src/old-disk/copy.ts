// Opens a copy of an old primary's data folder as a standby that follows nothing. Refuses what may
// not be a copy, and what would write outside of it.
// (docs/decisions/0242-the-old-disk-is-read-as-a-standby.md)
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { chown, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, isAbsolute, join, sep } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { withServer } from "../postgres.ts";
import { badInput, EXIT_REFUSED, Refusal } from "../refusal.ts";

const run = promisify(execFile);
const START_LIMIT_MS = 600_000;
const PAUSE_MS = 100;
const TAIL = 2_000;
const PORT = 5432;

/** Over all that the configuration of the copy says. */
const SETTINGS: Readonly<Record<string, string>> = {
  primary_conninfo: "",
  primary_slot_name: "",
  restore_command: "",
  archive_cleanup_command: "",
  recovery_end_command: "",
  recovery_target: "",
  recovery_target_name: "",
  recovery_target_time: "",
  recovery_target_xid: "",
  recovery_target_lsn: "",
  recovery_target_timeline: "current",
  archive_mode: "off",
  hot_standby: "on",
  listen_addresses: "",
  port: String(PORT),
  ssl: "off",
  logging_collector: "off",
  log_destination: "stderr",
  lc_messages: "C",
  // A standby would remove log that is still to be read.
  wal_keep_size: "1000000",
  // Copies of tablespaces are folders in place of links.
  allow_in_place_tablespaces: "on",
};

export interface Copy {
  readonly folder: string;
  /** Of the programs of its PostgreSQL. */
  readonly bin: string;
  /** A role that may read everything. */
  readonly user: string;
}

export interface Opened {
  /** The URL of one of its databases. */
  url(database: string): string;
}

interface Identity {
  readonly uid: number;
  readonly gid: number;
}

/** Returns the folder without links. Errors: Refusal. */
async function checkCopy({ folder, bin }: Copy): Promise<string> {
  const version = contentOf(join(folder, "PG_VERSION"))?.trim();
  if (version === undefined) throw badInput(`${folder} is not a data folder: it has no PG_VERSION`);
  const inside = realpathSync(folder);
  // A server that started there wrote this; a copy has the path of the original.
  const pid = contentOf(join(inside, "postmaster.pid"))?.split("\n") ?? [];
  const started = /"-D" "([^"]+)"/.exec(contentOf(join(inside, "postmaster.opts")) ?? "")?.[1];
  for (const path of [pid[1], started])
    if (path !== undefined && mayBe(path, inside))
      throw badInput(
        `${folder} is where its server ran, not a copy. Copy it first.`,
        "If it is a copy (in the same place on another machine, or of a server that was started with a relative path), remove its postmaster.pid and postmaster.opts.",
      );
  if (isRunning(Number(pid[0])))
    throw badInput(
      `${folder} has the postmaster.pid of a process that runs (${String(pid[0])})`,
      "Stop the server, or remove the file from the copy if the process is another program.",
    );
  const spaces = join(inside, "pg_tblspc");
  const parts = existsSync(spaces) ? readdirSync(spaces).map((name) => join(spaces, name)) : [];
  for (const part of [join(inside, "pg_wal"), ...parts]) {
    const target = existsSync(part) ? realpathSync(part) : null;
    if (target === null || !`${target}${sep}`.startsWith(`${inside}${sep}`))
      throw badInput(
        `${part} is not in the copy${target === null ? "" : `: it leads to ${target}`}`,
        "Copy that folder as well, and put the copy in place of the link.",
      );
  }
  if (!existsSync(join(inside, "postgresql.conf")))
    throw badInput(`${folder} has no postgresql.conf: copy that of the old primary into it`);
  const { stdout } = await run(join(bin, "postgres"), ["-V"], { cwd: "/" }).catch((cause: unknown) => {
    throw badInput(`${bin} has no postgres that runs: ${String((cause as Error).message)}`);
  });
  if (!existsSync(join(bin, "pg_waldump"))) throw badInput(`${bin} has no pg_waldump`);
  const major = /\(PostgreSQL\) (\d+)/.exec(stdout)?.[1];
  if (major !== version)
    throw badInput(`the copy is of PostgreSQL ${version}, and ${bin} is ${stdout.trim()}`);
  return inside;
}

/** Ends the server when `work` has ended. Errors: Refusal, and those of `work`. */
export async function withCopy<T>(copy: Copy, work: (opened: Opened) => Promise<T>): Promise<T> {
  const folder = await checkCopy(copy);
  const identity = ownerOf(folder);
  const own = realpathSync(await mkdtemp(join(tmpdir(), "highwater-copy-")));
  const owned = async (path: string, text: string): Promise<void> => {
    await writeFile(path, text);
    if (identity !== undefined) await chown(path, identity.uid, identity.gid);
  };
  try {
    if (identity !== undefined) await chown(own, identity.uid, identity.gid);
    const hba = join(own, "pg_hba.conf");
    // Only this user can enter the folder of the socket.
    await owned(hba, "local all all trust\n");
    await owned(join(folder, "standby.signal"), "");
    await rm(join(folder, "postmaster.pid"), { force: true });
    const settings = { ...SETTINGS, hba_file: hba, unix_socket_directories: own };
    const args = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const server = spawn(join(copy.bin, "postgres"), ["-D", folder, ...args], {
      ...identity,
      cwd: "/",
      stdio: ["ignore", "ignore", "pipe"],
    });
    let said = "";
    server.stderr.setEncoding("utf8").on("data", (text: string) => (said = (said + text).slice(-TAIL)));
    const ended = once(server, "exit");
    const url = (database: string): string =>
      `postgresql://${encodeURIComponent(copy.user)}@/${encodeURIComponent(database)}?host=${encodeURIComponent(own)}&port=${String(PORT)}`;
    try {
      await untilOpen(url("template1"), () =>
        server.exitCode === null && server.signalCode === null ? null : said,
      );
      return await work({ url });
    } finally {
      server.kill("SIGINT");
      await ended;
      // They would say that the server ran here, and not in the original.
      await rm(join(folder, "postmaster.opts"), { force: true });
    }
  } finally {
    await rm(own, { recursive: true, force: true });
  }
}

/** `ended`: the last lines of the server's log, when it has ended. */
async function untilOpen(url: string, ended: () => string | null): Promise<void> {
  for (let waited = 0; ; waited += PAUSE_MS) {
    const why = await withServer(url, async (client) => {
      await client.query("SELECT");
    }).then(
      () => null,
      (cause: unknown) => String((cause as Error).message),
    );
    if (why === null) return;
    const said = ended();
    if (said !== null || waited >= START_LIMIT_MS)
      throw new Refusal([`The copy does not open as a standby: ${why}`, said ?? ""], EXIT_REFUSED);
    await sleep(PAUSE_MS);
  }
}

/** PostgreSQL refuses to run as root, so root runs it as the owner of the folder. */
function ownerOf(folder: string): Identity | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const { uid, gid } = statSync(folder);
  if (uid === 0) throw badInput(`${folder} belongs to root, as which PostgreSQL does not run: chown it`);
  return { uid, gid };
}

/** Of a relative path, the start is not known. */
function mayBe(path: string, folder: string): boolean {
  if (!isAbsolute(path)) return basename(path) === basename(folder);
  return existsSync(path) && realpathSync(path) === folder;
}

function contentOf(path: string): string | undefined {
  return existsSync(path) ? readFileSync(path, "utf8") : undefined;
}

function isRunning(pid: number): boolean {
  if (!(pid > 0)) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (cause) {
    return (cause as { readonly code?: string }).code === "EPERM";
  }
}
