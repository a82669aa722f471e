// Preloaded into every service of a soak: measures from time to time how much its JavaScript heap
// holds. It forces a collection first, so that all that is left is referenced, and a few bytes too
// many per transaction show within minutes.
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { isMainThread } from "node:worker_threads";

/** Measured in the main thread, one file per process; host-sample.ts reads it. */
export interface Held {
  readonly heapBytes: number;
  /** Buffers and other memory that objects of the heap hold outside it. */
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
    // Renamed into place, so that a reader never sees half a measurement.
    writeFileSync(`${file}.new`, JSON.stringify(held));
    renameSync(`${file}.new`, file);
  }, EVERY_MS).unref();
}
