// A temporary folder that is removed no later than the program that made it has ended. Another
// process does it, because a signal runs no `finally`.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * Waits for the end of its parent, which closes the pipe that `read` waits on. Processes of the
 * parent end with it but may write for some moments, longest on a busy machine, so the folder has
 * to stay away for two seconds. The sweeper ignores the terminal's signals.
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
    // The sweeper may have ended before it gets the signal. It must not keep the program alive.
    stdin?.on("error", () => undefined);
    if (stdin instanceof Socket) stdin.unref();
  }

  /** Makes a new folder for temporary files. */
  static async make(prefix: string): Promise<TemporaryFolder> {
    return new TemporaryFolder(await mkdtemp(join(tmpdir(), prefix)));
  }

  /** Takes over an existing folder. */
  static of(path: string): TemporaryFolder {
    return new TemporaryFolder(path);
  }

  /** Keeps the folder when the program ends. */
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
