// A child process that reads and writes lines: the host, the fake server and the drivers. It ends
// when its standard input closes.
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface, type Interface } from "node:readline";

export class LineProcess implements AsyncDisposable {
  readonly #name: string;
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  readonly #exited: Promise<number | null>;

  /** The child's standard error is ours. */
  constructor(name: string, command: readonly [string, ...string[]], env: NodeJS.ProcessEnv = {}) {
    const [file, ...args] = command;
    const child = spawn(file, args, { stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, ...env } });
    const input: Interface = createInterface({ input: child.stdout });
    this.#name = name;
    this.#child = child;
    this.#lines = input[Symbol.asyncIterator]();
    this.#exited = new Promise((resolve, reject) => {
      child.once("error", reject).once("exit", resolve);
    });
    // Code that waits for a line receives the error.
    this.#exited.catch(() => undefined);
    child.stdin.on("error", () => undefined);
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  async read(): Promise<unknown> {
    const next = await this.#lines.next();
    if (next.done === true) throw new Error(`${this.#name} has ended with ${String(await this.#exited)}`);
    return JSON.parse(next.value);
  }

  write(message: unknown): void {
    this.#child.stdin?.write(`${JSON.stringify(message)}\n`);
  }

  /** Closes its standard input, and resolves with its exit code. */
  async close(): Promise<number | null> {
    this.#child.stdin?.end();
    return this.#exited;
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
