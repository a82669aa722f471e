// A thread for one file on disk, so that a flush never delays a mark. Requests are carried out in
// their order, and each has one reply.
import { parentPort, Worker } from "node:worker_threads";

type Reply =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly message: string };

interface Waiter {
  readonly resolve: (value: unknown) => void;
  readonly reject: (cause: Error) => void;
}

/** The thread as the main thread sees it. */
export class DiskThread<Request> {
  readonly #worker: Worker;
  readonly #name: string;
  readonly #waiters: Waiter[] = [];
  #failed: Error | null = null;

  /** `onEnd`: called if the thread ends by an error that no request has caused. */
  constructor(
    module: URL,
    options: {
      readonly name: string;
      readonly data: unknown;
      readonly onEnd?: (cause: Error) => void;
    },
  ) {
    this.#name = options.name;
    this.#worker = new Worker(module, {
      workerData: options.data,
      execArgv: ["--disable-warning=ExperimentalWarning"],
    });
    this.#worker.on("message", (reply: Reply) => {
      const waiter = this.#waiters.shift();
      if (reply.ok) waiter?.resolve(reply.value);
      else waiter?.reject(new Error(`${this.#name}: ${reply.message}`));
    });
    this.#worker.on("error", (cause) => {
      const error = cause instanceof Error ? cause : new Error(String(cause));
      this.#failed = error;
      for (const waiter of this.#waiters.splice(0)) waiter.reject(error);
      options.onEnd?.(error);
    });
  }

  /** Rejects if the request fails, and if the thread has ended. */
  async ask<T>(request: Request): Promise<T> {
    if (this.#failed !== null) throw this.#failed;
    return new Promise<T>((resolve, reject) => {
      this.#waiters.push({ resolve: resolve as Waiter["resolve"], reject });
      this.#worker.postMessage(request);
    });
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
  }
}

/** To be called in the thread: carries out its requests. */
export function serveRequests<Request>(handle: (request: Request) => unknown): void {
  parentPort?.on("message", (request: Request) => {
    let reply: Reply;
    try {
      reply = { ok: true, value: handle(request) };
    } catch (cause) {
      reply = { ok: false, message: cause instanceof Error ? cause.message : String(cause) };
    }
    parentPort?.postMessage(reply);
  });
}
