// Reads processes and files of the machine; Linux only. The result is null if one does not exist or
// ends while it is read.
import { readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { heapFile, type Held } from "./heap-probe.ts";

export interface ProcessSample {
  readonly residentMib: number;
  /** Without the connections of clients. */
  readonly descriptors: number;
  /**
   * The sockets among them: the service's own connections, and those that a client has closed but
   * the service has not.
   */
  readonly sockets: number;
  /** Connections to the service that both sides hold open. */
  readonly clients: number;
}

export interface ServerSample {
  /** The private memory of the server and its backends together. */
  readonly privateMib: number;
  readonly descriptors: number;
  readonly backends: number;
}

const MEBIBYTE = 1_048_576;
/** The kernel's code of the state. */
const ESTABLISHED = "01";

/** Returns null instead of an error, because processes and files come and go. */
export function ifThere<T>(look: () => T): T | null {
  try {
    return look();
  } catch {
    return null;
  }
}

/** `port`: where the service listens. `established`: see readEstablished(). */
export function sampleProcess(
  pid: number,
  port: number,
  established: ReadonlyMap<string, number>,
): ProcessSample | null {
  return ifThere(() => {
    const links = readdirSync(`/proc/${String(pid)}/fd`).flatMap((each) => linkOf(pid, each) ?? []);
    const sockets = links.flatMap((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1] ?? []);
    const clients = sockets.filter((inode) => established.get(inode) === port).length;
    return {
      residentMib: residentMib(pid),
      descriptors: links.length - clients,
      sockets: sockets.length - clients,
      clients,
    };
  });
}

export function residentMib(pid: number): number {
  return statusMib(pid, "VmRSS");
}

/** The local port of every established connection of the host, by the socket's inode. */
export function readEstablished(): ReadonlyMap<string, number> {
  const lines = ifThere(() => readFileSync("/proc/net/tcp", "latin1").trim().split("\n").slice(1)) ?? [];
  return new Map(
    lines.flatMap((line): [string, number][] => {
      const [, local = "", , state, , , , , , inode] = line.trim().split(/\s+/);
      if (state !== ESTABLISHED || inode === undefined) return [];
      return [[inode, Number.parseInt(local.slice(local.indexOf(":") + 1), 16)]];
    }),
  );
}

export function sampleHeap(dir: string, pid: number): Held | null {
  return ifThere(() => JSON.parse(readFileSync(heapFile(dir, pid), "utf8")) as Held);
}

/** Samples the server with this data directory. */
export function sampleServer(dataDir: string): ServerSample | null {
  return ifThere(() => {
    const postmaster = Number(readFileSync(`${dataDir}/postmaster.pid`, "latin1").split("\n")[0]);
    const children = readFileSync(
      `/proc/${String(postmaster)}/task/${String(postmaster)}/children`,
      "latin1",
    );
    let [privateMib, descriptors, backends] = [0, 0, 0];
    for (const pid of [postmaster, ...children.trim().split(" ").map(Number)]) {
      const mib = ifThere(() => statusMib(pid, "RssAnon"));
      if (mib === null) continue;
      privateMib += mib;
      descriptors += ifThere(() => descriptorsOf(pid).length) ?? 0;
      backends++;
    }
    return { privateMib, descriptors, backends };
  });
}

/** The size including its write-ahead log. */
export function fileMib(path: string): number | null {
  const bytes = (name: string): number => ifThere(() => statSync(name).size) ?? 0;
  const total = bytes(path) + bytes(`${path}-wal`);
  return total === 0 ? null : total / MEBIBYTE;
}

function statusMib(pid: number, field: "VmRSS" | "RssAnon"): number {
  const status = readFileSync(`/proc/${String(pid)}/status`, "latin1");
  const kib = new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(status)?.[1];
  if (kib === undefined) throw new Error(`process ${String(pid)} has no ${field}`);
  return Number(kib) / 1_024;
}

function descriptorsOf(pid: number): readonly string[] {
  return readdirSync(`/proc/${String(pid)}/fd`);
}

function linkOf(pid: number, descriptor: string): string | null {
  return ifThere(() => readlinkSync(`/proc/${String(pid)}/fd/${descriptor}`));
}
