// Wall clocks that can be set while a process runs. libfaketime, loaded before the C library, adds
// an offset that it reads from a file. Monotonic clocks and the times of files stay correct.
import { existsSync, globSync } from "node:fs";
import { copyFile, mkdir, rename, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

/** Where `make .tools/faketime` unpacks the distribution's package. */
export const FAKETIME_UNPACKED = fileURLToPath(new URL("../../../.tools/faketime", import.meta.url));
const LIBRARY = "usr/lib/*/faketime/libfaketimeMT.so.1";
const COPY = "libfaketime.so";
/** How often a process reads its file again. */
export const CLOCK_NOTICED_MS = 1_000;

/** The library's file, the project's own or the machine's; undefined where there is none. */
export function findFaketime(): string | undefined {
  return globSync([path.join(FAKETIME_UNPACKED, LIBRARY), path.join("/", LIBRARY)])[0];
}

export class Clocks {
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** The clocks that make() has put into the folder. */
  static in(dir: string): Clocks {
    return new Clocks(path.join(dir, "clocks"));
  }

  /** Copies the library, because the servers' user may not reach the original. */
  static async make(dir: string, library: string): Promise<Clocks> {
    const clocks = Clocks.in(dir);
    await mkdir(clocks.#folder, { mode: 0o755 });
    await copyFile(library, path.join(clocks.#folder, COPY));
    return clocks;
  }

  /** The environment of a process with this clock, which is correct until it is set. */
  async environment(name: string): Promise<Record<string, string>> {
    if (!existsSync(this.#fileOf(name))) await this.set(name, 0);
    return {
      LD_PRELOAD: path.join(this.#folder, COPY),
      FAKETIME_TIMESTAMP_FILE: this.#fileOf(name),
      FAKETIME_CACHE_DURATION: String(CLOCK_NOTICED_MS / 1_000),
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
      FAKETIME_DISABLE_SHM: "1",
      NO_FAKE_STAT: "1",
    };
  }

  /**
   * Sets the clock ahead of the true time, or behind it; 0 is correct. Processes notice within
   * CLOCK_NOTICED_MS.
   */
  async set(name: string, offsetMs: number): Promise<void> {
    const file = this.#fileOf(name);
    // Moved into place, so that a process never reads half a line.
    const next = `${file}.next`;
    await writeFile(next, `${offsetMs < 0 ? "-" : "+"}${String(Math.abs(offsetMs) / 1_000)}\n`, {
      mode: 0o644,
    });
    await rename(next, file);
  }

  #fileOf(name: string): string {
    return path.join(this.#folder, name);
  }
}
