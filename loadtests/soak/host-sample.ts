// What the machine tells of processes and files: Linux only. What is gone, or ends while it is looked at, is null.
import { readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { heapFile, type Held } from "./heap-probe.ts";

export interface ProcessSample {
  readonly residentMib: number;
  readonly descriptors: number;
  /** Of the descriptors those that are sockets. */
  readonly sockets: number;
}

export interface ServerSample {
  /** Of the server and its backends together, without what they share. */
  readonly privateMib: number;
  readonly descriptors: number;
  readonly backends: number;
}

const MEBIBYTE = 1_048_576;

/** `null` instead of an error: processes and files come and go. */
export function ifThere<T>(look: () => T): T | null {
  try {
    return look();
  } catch {
    return null;
  }
}

export function sampleProcess(pid: number): ProcessSample | null {
  return ifThere(() => {
    const descriptors = descriptorsOf(pid);
    const sockets = descriptors.filter((each) => isSocket(pid, each)).length;
    return { residentMib: statusMib(pid, "VmRSS"), descriptors: descriptors.length, sockets };
  });
}

export function sampleHeap(dir: string, pid: number): Held | null {
  return ifThere(() => JSON.parse(readFileSync(heapFile(dir, pid), "utf8")) as Held);
}

/** Of the server whose data is in the folder. */
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

/** With its write-ahead log. */
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

function isSocket(pid: number, descriptor: string): boolean {
  const path = `/proc/${String(pid)}/fd/${descriptor}`;
  return ifThere(() => readlinkSync(path))?.startsWith("socket:") === true;
}
