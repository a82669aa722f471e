// Preloaded into every service of a soak: what its JavaScript heap really holds, once in a while. A
// collection is forced first: what is still there after it is held by somebody, and a few bytes too
// many per transaction show within minutes.
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { isMainThread } from "node:worker_threads";

/** Of main threads by their process id; read by host-sample.ts. */
export interface Held {
  readonly heapBytes: number;
  /** Buffers and whatever else the heap's objects hold outside of it. */
  readonly externalBytes: number;
}

export const heapFile = (dir: string, pid: number): string => join(dir, `heap-${String(pid)}.json`);

const EVERY_MS = 5_000;
const dir = process.env["SOAK_HEAP_DIR"];

if (dir !== undefined && isMainThread) {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  setInterval(() => {
    collect();
    const { heapUsed, external } = process.memoryUsage();
    const held: Held = { heapBytes: heapUsed, externalBytes: external };
    const file = heapFile(dir, process.pid);
    // Renamed into place: a reader sees one measurement or the other.
    writeFileSync(`${file}.new`, JSON.stringify(held));
    renameSync(`${file}.new`, file);
  }, EVERY_MS).unref();
}
