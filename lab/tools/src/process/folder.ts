// A temporary folder that is gone at the latest when the program is that made it, however that
// ended: a signal runs no `finally`.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * Waits for the end of its parent, which closes the pipe that `read` waits on. Processes of the
 * parent end with it, and may write for some moments yet: the folder has to stay away for two
 * seconds, since a busy machine may hold the writer up for a moment before it ends. No signal of
 * the terminal is for the sweeper.
 */
const SWEEPER = `trap '' INT TERM HUP; read -r word; [ "$word" = keep ] && exit
  left=100; away=0
  while [ $left -gt 0 ] && [ $away -lt 10 ]; do
    if [ -e "$1" ]; then away=0; rm -rf "$1" 2>/dev/null; else away=$((away + 1)); fi
    sleep 0.2; left=$((left - 1))
  done`;

const RETRIES = { maxRetries: 5, retryDelay: 100 } as const;

export class TemporaryFolder implements AsyncDisposable {
  readonly path: string;
  readonly #sweeper: ChildProcess;

  private constructor(path: string) {
    this.path = path;
    this.#sweeper = spawn("/bin/sh", ["-c", SWEEPER, "sweeper", path], {
      cwd: "/",
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    this.#sweeper.unref();
    const { stdin } = this.#sweeper;
    // It may be gone before it gets the signal, and holds up nothing.
    stdin?.on("error", () => undefined);
    if (stdin instanceof Socket) stdin.unref();
  }

  /** A new one, in the machine's place for temporary files. */
  static async make(prefix: string): Promise<TemporaryFolder> {
    return new TemporaryFolder(await mkdtemp(join(tmpdir(), prefix)));
  }

  /** One that is there already. */
  static of(path: string): TemporaryFolder {
    return new TemporaryFolder(path);
  }

  /** It stays where it is. */
  async keep(): Promise<void> {
    await this.#dismiss();
  }

  async remove(): Promise<void> {
    await rm(this.path, { recursive: true, force: true, ...RETRIES });
    await this.#dismiss();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.remove();
  }

  async #dismiss(): Promise<void> {
    if (this.#sweeper.exitCode !== null || this.#sweeper.signalCode !== null) return;
    this.#sweeper.ref();
    const gone = once(this.#sweeper, "exit");
    this.#sweeper.stdin?.end("keep\n");
    await gone;
  }
}
