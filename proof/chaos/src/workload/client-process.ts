// The run's handle on one client process.
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import { programFile } from "@highwater/lab-system";
import { type Progress } from "../parts.ts";
import { type ClientOptions, type Command, type Report } from "./messages.ts";

const MAIN = new URL("./client-main.ts", import.meta.url);

export class ClientProcess {
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;
  readonly #waiting = new Map<Command["do"], PromiseWithResolvers<void>>();
  #progress: Progress = { invoked: 0, committed: 0, unknown: 0, lost: 0 };
  #failure: Error | undefined;
  #isClosing = false;

  private constructor(name: string, child: ChildProcess) {
    this.name = name;
    this.#child = child;
    this.#exited = new Promise((resolve) => {
      child.once("exit", (code, signal) => {
        if (!this.#isClosing)
          this.#fail(new Error(`client ${name} ended by itself: ${String(code ?? signal)}`));
        resolve();
      });
    });
    child.on("error", (error) => {
      this.#fail(error);
    });
    child.on("message", (message) => {
      this.#take(message as Report);
    });
  }

  /** Its error output is in `client-NAME.log`. */
  static async start(options: ClientOptions): Promise<ClientProcess> {
    const program = await programFile(MAIN);
    const log = openSync(join(options.dir, `client-${options.name}.log`), "a");
    const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", program], {
      // Its own group, so that Ctrl-C in the terminal reaches it only through the run.
      detached: true,
      stdio: ["ignore", log, log, "ipc"],
    });
    closeSync(log);
    const started = new ClientProcess(options.name, child);
    try {
      await started.#command({ do: "start", options });
      return started;
    } catch (error) {
      await started.close();
      throw error;
    }
  }

  get progress(): Progress {
    return this.#progress;
  }

  stop(): Promise<void> {
    return this.#command({ do: "stop" });
  }

  async finish(): Promise<void> {
    await this.#command({ do: "finish" });
    await this.close();
  }

  /** Kills it at once, whatever it is doing. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#child.kill("SIGKILL");
    await this.#exited;
  }

  async #command(command: Command): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    const done = Promise.withResolvers<void>();
    this.#waiting.set(command.do, done);
    this.#child.send(command);
    await done.promise;
    this.#waiting.delete(command.do);
  }

  #take(message: Report): void {
    switch (message.kind) {
      case "progress":
        this.#progress = message.progress;
        break;
      case "done":
        this.#waiting.get(message.what)?.resolve();
        break;
      case "failed":
        this.#fail(new Error(`client ${this.name} failed: ${message.error}`));
        break;
    }
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    for (const { reject } of this.#waiting.values()) reject(this.#failure);
  }
}
