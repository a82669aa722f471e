// One SDK as a process that takes commands. Owns the calls in flight, and how long one may take.
import { fileURLToPath } from "node:url";
import { LineProcess } from "./line-process.ts";

type Json = Readonly<Record<string, unknown>>;
export type DriverReply = { readonly ok: unknown } | { readonly error: Json };

/** Longer than any wait in a scenario: a call that exceeds it hangs. */
const CALL_LIMIT_MS = 90_000;

const folder = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url));
const PYTHON = folder("../../.venv/bin/python");
const python = (kind: string): [string, ...string[]] => [PYTHON, folder("drivers/python/main.py"), kind];

/** The languages, and how their drivers are started. */
export const LANGUAGES: Readonly<Record<string, readonly [string, ...string[]]>> = {
  typescript: [process.execPath, folder("drivers/typescript.ts")],
  "python sync": python("sync"),
  "python async": python("async"),
};

export class Driver implements AsyncDisposable {
  readonly language: string;
  readonly #process: LineProcess;
  readonly #waiting = new Map<number, PromiseWithResolvers<DriverReply>>();
  #calls = 0;
  #broken: Error | undefined;

  constructor(language: string) {
    const command = LANGUAGES[language];
    if (command === undefined) throw new Error(`there is no driver for ${language}`);
    this.language = language;
    this.#process = new LineProcess(language, command, { PYTHONPATH: folder("../python/src") });
    void this.#listen();
  }

  get isBroken(): boolean {
    return this.#broken !== undefined;
  }

  /** Begins a call; its number is for `cancel`. */
  start(scope: string, verb: string, given: Json): { call: number; answer: Promise<DriverReply> } {
    const call = (this.#calls += 1);
    const waiting = Promise.withResolvers<DriverReply>();
    if (this.#broken !== undefined) waiting.reject(this.#broken);
    else this.#waiting.set(call, waiting);
    this.#process.write({ call, scope, do: verb, with: given });
    const timer = setTimeout(() => {
      this.#break(new Error(`${this.language} does not answer ${verb} ${JSON.stringify(given)}`));
    }, CALL_LIMIT_MS);
    const answer = waiting.promise.finally(() => {
      clearTimeout(timer);
    });
    // Code that joins the call receives the error.
    answer.catch(() => undefined);
    return { call, answer };
  }

  run(scope: string, verb: string, given: Json = {}): Promise<DriverReply> {
    return this.start(scope, verb, given).answer;
  }

  async cancel(scope: string, call: number): Promise<void> {
    await this.run(scope, "cancel", { call });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#broken === undefined) await this.#process.close();
  }

  async #listen(): Promise<void> {
    try {
      for (;;) {
        const { call, ...answer } = (await this.#process.read()) as DriverReply & { call: number };
        this.#waiting.get(call)?.resolve(answer);
        this.#waiting.delete(call);
      }
    } catch (cause) {
      this.#break(cause instanceof Error ? cause : new Error(String(cause)));
    }
  }

  #break(error: Error): void {
    if (this.#broken !== undefined) return;
    this.#broken = error;
    for (const waiting of this.#waiting.values()) waiting.reject(error);
    this.#waiting.clear();
    this.#process.kill();
  }
}

/** A driver for each language. It starts when it is first needed, and again after it broke. */
export class Drivers implements AsyncDisposable {
  readonly #drivers = new Map<string, Driver>();

  get(language: string): Driver {
    const known = this.#drivers.get(language);
    if (known !== undefined && !known.isBroken) return known;
    const driver = new Driver(language);
    this.#drivers.set(language, driver);
    return driver;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#drivers.values()].map((driver) => driver[Symbol.asyncDispose]()));
  }
}
